//! MPS daemons of the pool: whether each still runs.
//!
//! Nobody is asked to answer, because users can keep their daemon from doing that: whoever listens at its socket is looked up
//! once, and a handle on that process then says when it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::process::PidfdFlags;

use crate::core::Process;

/// Findings at a daemon's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The daemon of the last look, or the first one that was seen.
    Same,
    /// Another one: that of the last look has ended.
    Another,
    /// Nobody.
    Nobody,
}

/// The daemons seen so far, by pipe directory, and their servers.
#[derive(Default)]
pub(super) struct Daemons {
    seen: BTreeMap<String, Daemon>,
    /// Children of a daemon, as long as they live: a server may outlive its daemon.
    servers: BTreeSet<Process>,
}

struct Daemon {
    pid: u32,
    handle: OwnedFd,
}

impl Daemons {
    pub(super) fn look(&mut self, pipe: &str) -> Found {
        let known = self.seen.remove(pipe);
        let had_one = known.is_some();
        if let Some(daemon) = known.filter(|daemon| lives(&daemon.handle)) {
            self.seen.insert(pipe.to_owned(), daemon);
            return Found::Same;
        }
        match listener(Path::new(pipe)) {
            // Too many call at the same time for it to be asked who it is.
            Err(Errno::AGAIN) => Found::Same,
            Err(_) => Found::Nobody,
            Ok(daemon) => {
                self.seen.insert(pipe.to_owned(), daemon);
                if had_one { Found::Another } else { Found::Same }
            }
        }
    }

    /// Tells whether a process is a server of a daemon that ran at the last look: its child. No user can make another
    /// process that. Such a process is remembered.
    pub(super) fn is_server(&mut self, process: Process, parent: u32) -> bool {
        let is_server = self.seen.values().any(|daemon| daemon.pid == parent);
        if is_server {
            self.servers.insert(process);
        }
        is_server
    }

    /// Tells whether a process is a daemon, or has been seen as a daemon's server. Its name plays no part: every user can
    /// choose one.
    pub(super) fn is_mps(&self, process: Process) -> bool {
        let is_daemon = |daemon: &Daemon| daemon.pid == process.pid && lives(&daemon.handle);
        self.servers.contains(&process) || self.seen.values().any(is_daemon)
    }

    /// Forgets all daemons but these, and the servers that have ended.
    pub(super) fn keep(&mut self, pipes: &[String]) {
        self.seen.retain(|pipe, _| pipes.contains(pipe));
        self.servers.retain(|server| node_driver::process::start_time_of(server.pid) == Some(server.start));
    }
}

/// A handle becomes readable when its process ends.
fn lives(handle: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(handle, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0)
}

fn listener(pipe: &Path) -> Result<Daemon, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(pipe.join("control"))?)?;
    let pid = sockopt::socket_peercred(&socket)?.pid;
    let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    Ok(Daemon { pid: pid.as_raw_nonzero().get().unsigned_abs(), handle })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Listens at a path until its input ends.
    const LISTENER: &str = "import socket,sys\ns=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET)\n\
                            s.bind(sys.argv[1]); s.listen(); print('up',flush=True); sys.stdin.read()";

    fn listen(dir: &Path) -> std::process::Child {
        let _ = std::fs::remove_file(dir.join("control"));
        let mut python = Command::new("python3");
        python.args(["-c", LISTENER]).arg(dir.join("control")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0; 3]).unwrap();
        child
    }

    #[test]
    fn a_server_is_known_by_its_daemon_and_outlives_it() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().to_str().unwrap();
        let mut daemons = Daemons::default();
        let mut daemon = listen(dir.path());
        assert_eq!(daemons.look(pipe), Found::Same);
        let process = |pid| Process { pid, start: node_driver::process::start_time_of(pid).unwrap() };
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let (server, parent) = (process(child.id()), daemon.id());
        assert!(daemons.is_mps(process(daemon.id())) && !daemons.is_mps(server));
        assert!(!daemons.is_server(server, std::process::id()) && !daemons.is_mps(server));
        assert!(daemons.is_server(server, parent) && daemons.is_mps(server));
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        daemons.keep(&[]);
        assert!(daemons.is_mps(server), "its clients go on");
        assert!(
            !daemons.is_mps(Process { start: server.start + 1, ..server }),
            "another process of the same number"
        );
        child.kill().unwrap();
        child.wait().unwrap();
        daemons.keep(&[]);
        assert!(!daemons.is_mps(server));
    }

    #[test]
    fn a_daemon_that_ends_or_is_replaced_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().to_str().unwrap();
        let mut daemons = Daemons::default();
        assert_eq!(daemons.look(pipe), Found::Nobody);
        let mut first = listen(dir.path());
        assert_eq!([daemons.look(pipe), daemons.look(pipe)], [Found::Same; 2]);
        first.kill().unwrap();
        let mut second = listen(dir.path());
        first.wait().unwrap();
        assert_eq!([daemons.look(pipe), daemons.look(pipe)], [Found::Another, Found::Same]);
        second.kill().unwrap();
        second.wait().unwrap();
        assert_eq!([daemons.look(pipe), daemons.look(pipe)], [Found::Nobody; 2]);
    }
}
