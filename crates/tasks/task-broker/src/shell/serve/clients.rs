//! Processes: they connect, ask, hang up and end.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use task_wire::{Code, REQUEST_LEN, Refused, Reply, Text, Welcome};

use super::{Broker, Source, message, now};
use crate::core::{Image, Process, unknown};
use crate::shell::connection::Connection;

/// Most connections of one job. A process needs one.
const JOB_CONNECTIONS: usize = 1024;
/// Most connections of one process: each answer goes to all of them.
const PROCESS_CONNECTIONS: usize = 64;

impl Broker {
    pub(super) fn connected(&mut self, job: u32, fd: OwnedFd, process: Process, handle: OwnedFd) {
        let of_process = self.connections.get(&process).map_or(0, BTreeSet::len);
        let here = self.per_job.entry(job).or_default();
        if of_process >= PROCESS_CONNECTIONS
            || *here >= JOB_CONNECTIONS
            || self.sources.len() >= self.most_connections
        {
            return;
        }
        *here += 1;
        let connection = Connection { fd, job, process, asked: BTreeSet::new(), served: self.turns };
        match self.watch(Source::Connection(connection)) {
            Ok(token) => {
                self.connections.entry(process).or_default().insert(token);
                self.watch_process(process, handle);
            }
            Err(_) => {
                self.per_job.entry(job).and_modify(|n| *n -= 1);
            }
        }
    }

    pub(super) fn watch_process(&mut self, process: Process, handle: OwnedFd) {
        if self.processes.contains_key(&process) {
            return;
        }
        match self.watch(Source::Process(process, handle)) {
            Ok(token) => drop(self.processes.insert(process, token)),
            Err(e) => message(&format!("process {} cannot be watched: {e}", process.pid)),
        }
    }

    pub(super) fn request(&mut self, token: u64, packet: &[u8], length: usize) {
        let Some(Source::Connection(connection)) = self.sources.get_mut(&token) else { return };
        let (job, process) = (connection.job, connection.process);
        let decoded = if length > REQUEST_LEN {
            Err(task_wire::WireError::NotOurs)
        } else {
            task_wire::Request::decode(packet)
        };
        let effects = match decoded {
            Err(why) => {
                let why = Text::cut(&why.to_string());
                let refused = Refused { nonce: 0, code: Code::Unreadable, need: 0, most: 0, why };
                connection.send(&Reply::Refused(refused));
                return self.hang_up(token);
            }
            Ok(task_wire::Request::Hello { .. }) => {
                let declared = self.core.job(job).and_then(|(_, declared)| declared).unwrap_or(0);
                if !connection.send(&Reply::Welcome(Welcome { job: job.into(), declared })) {
                    self.hang_up(token);
                }
                return;
            }
            Ok(task_wire::Request::Begin(begin)) => {
                let image = Image { process, image: begin.image };
                self.forget_other_images(image);
                if let Some(Source::Connection(connection)) = self.sources.get_mut(&token) {
                    connection.asked.insert((image, begin.nonce));
                }
                let was_awaited = self.core.awaits_ends();
                let effects = self.core.begin(job, process, &begin, now());
                if !was_awaited && self.core.awaits_ends() {
                    self.look_soon();
                }
                effects
            }
            Ok(task_wire::Request::Free { image, nonce }) => {
                let effects = self.core.free(Image { process, image }, nonce, now());
                if effects.is_empty() {
                    connection.send(&unknown(nonce));
                }
                effects
            }
        };
        self.carry_out(effects);
    }

    /// The peer is gone. What only it waited for is withdrawn; what it holds, it keeps.
    pub(super) fn hang_up(&mut self, token: u64) {
        let Some(Source::Connection(connection)) = self.sources.remove(&token) else { return };
        self.per_job.entry(connection.job).and_modify(|n| *n -= 1);
        if let Some(tokens) = self.connections.get_mut(&connection.process) {
            tokens.remove(&token);
            if tokens.is_empty() {
                self.connections.remove(&connection.process);
            }
        }
        for (image, nonce) in &connection.asked {
            if !self.is_asked(connection.process, &(*image, *nonce)) {
                let effects = self.core.withdraw(*image, *nonce, now());
                self.carry_out(effects);
            }
        }
        self.forget_process(connection.process);
    }

    pub(super) fn is_asked(&self, process: Process, task: &(Image, u64)) -> bool {
        let tokens = self.connections.get(&process).into_iter().flatten();
        tokens.filter_map(|token| self.sources.get(token)).any(|source| match source {
            Source::Connection(connection) => connection.asked.contains(task),
            _ => false,
        })
    }

    /// Stops watching a process without connections and leases.
    pub(super) fn forget_process(&mut self, process: Process) {
        let is_needed = self.connections.contains_key(&process) || self.core.knows(process);
        if let Some(token) = self.processes.get(&process).copied().filter(|_| !is_needed) {
            self.processes.remove(&process);
            self.sources.remove(&token);
        }
    }

    /// A process hands its connections on, by a fork or over a socket, and may do so before it ends. They end with it: what is
    /// granted to a process that has ended would never be given back.
    pub(super) fn process_ended(&mut self, process: Process) {
        if let Some(token) = self.processes.remove(&process) {
            self.sources.remove(&token);
        }
        let was_here = self.core.knows(process);
        let effects = self.core.process_ended(process, now());
        self.carry_out(effects);
        let left: Vec<u64> = self.connections.get(&process).into_iter().flatten().copied().collect();
        left.into_iter().for_each(|token| self.hang_up(token));
        if was_here {
            self.look_soon();
        }
    }

    /// The core ends the tasks of a process's other images without an answer: nobody is there to read it.
    fn forget_other_images(&mut self, of: Image) {
        let tokens = self.connections.get(&of.process).into_iter().flatten();
        for token in tokens {
            if let Some(Source::Connection(connection)) = self.sources.get_mut(token)
                && let Some((first, _)) = connection.asked.first()
                && (*first != of || connection.asked.last().is_some_and(|(last, _)| *last != of))
            {
                connection.asked.retain(|(image, _)| *image == of);
            }
        }
    }

    pub(super) fn withdraw_orphans(&mut self) {
        for (image, nonce) in self.core.waiting() {
            if !self.is_asked(image.process, &(image, nonce)) {
                let effects = self.core.withdraw(image, nonce, now());
                self.carry_out(effects);
            }
        }
    }

    pub(super) fn reply(&mut self, process: Process, reply: &Reply) {
        let nonce = match reply {
            Reply::Granted(grant) => grant.nonce,
            Reply::Refused(refused) => refused.nonce,
            Reply::Freed { nonce } => *nonce,
            Reply::Welcome(_) => 0,
        };
        let tokens: Vec<u64> = self.connections.get(&process).into_iter().flatten().copied().collect();
        for token in tokens {
            if let Some(Source::Connection(connection)) = self.sources.get_mut(&token) {
                connection.asked.retain(|(_, asked)| *asked != nonce);
                // One that does not read finds out when it next tries.
                if !connection.send(reply) {
                    // Shutting down makes it readable, and the loop hangs it up.
                    let _ = rustix::net::shutdown(&connection.fd, rustix::net::Shutdown::Both);
                }
            }
        }
    }
}
