//! The loop.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use case::Bytes;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};
use task_control::message::{Answer, Request};
use task_wire::{Code, REQUEST_LEN, Refused, Reply, Text, Welcome};

use super::connection::{self, Connection};
use super::control::{self, Control};
use super::files::{AddedJob, Folder};
use super::nvml::Looker;
use super::options::{Options, Overuse};
use super::table::{Stored, Table};
use super::{ANOTHER_SERVES, ServeError, overuse};
use crate::core::{Core, Effect, Image, Of, Process};

/// Most connections of one job. A process needs one.
const JOB_CONNECTIONS: usize = 1024;
/// Files that are no connections.
const OTHER_FILES: u64 = 512;
/// How long a task that waited under a broker that died may wait for its process to come back.
const ORPHANS: Duration = Duration::from_secs(10);
/// Between two looks at the devices: while somebody's end is awaited, at first and at most; while somebody is there; else.
const SOON: Duration = Duration::from_millis(10);
const LATER: Duration = Duration::from_millis(500);
const IN_USE: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(10);

/// Something that epoll watches.
enum Source {
    Root(UnixListener),
    Control(Control),
    Job(u32, OwnedFd),
    Connection(Connection),
    Process(Process, OwnedFd),
}

/// The broker.
struct Broker {
    core: Core,
    folder: Folder,
    table: Table,
    looker: Looker,
    log: Option<File>,
    overuse: Overuse,
    epoll: OwnedFd,
    sources: BTreeMap<u64, Source>,
    next: u64,
    connections: BTreeMap<Process, BTreeSet<u64>>,
    processes: BTreeMap<Process, u64>,
    per_job: BTreeMap<u32, usize>,
    most_connections: usize,
    next_look: Option<Instant>,
    look_after: Duration,
    orphans: Option<Instant>,
    is_stopping: bool,
}

/// Serves until it is told to stop.
///
/// # Errors
///
/// The folder, the table or the control socket cannot be had.
pub fn serve(options: &Options) -> Result<ExitCode, ServeError> {
    let folder = Folder::make(&options.run_dir)?;
    let Some(_lock) = folder.lock()? else { return Ok(ExitCode::from(ANOTHER_SERVES)) };
    let most_connections = raise_limit();
    drop_capabilities()?;
    let mut broker = Broker::new(options, folder, most_connections)?;
    broker.run()?;
    broker.folder.clear();
    Ok(ExitCode::SUCCESS)
}

/// Lets the process have as many files as it may, and returns how many of them may be connections.
fn raise_limit() -> usize {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(1 << 20).min(1 << 20);
    let raised =
        rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum });
    let current = if raised.is_ok() { most } else { limit.current.unwrap_or(1024) };
    usize::try_from(current.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX)
}

/// Keeps only: to give a job's socket to its user, to read /proc and device nodes of users, to end a process.
fn drop_capabilities() -> Result<(), ServeError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let all =
        CapabilitySet::CHOWN | CapabilitySet::DAC_OVERRIDE | CapabilitySet::KILL | CapabilitySet::SYS_PTRACE;
    let held =
        rustix::thread::capabilities(None).map_err(|e| ServeError::io("read its capabilities")(e.into()))?;
    let kept = all & held.permitted;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).map_err(|e| ServeError::io("drop capabilities")(e.into()))
}

/// Seconds since the epoch.
fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |t| t.as_secs_f64())
}

/// A line for the administrator.
fn message(text: &str) {
    // If nobody can be told, there is nothing else to do.
    let _ = writeln!(std::io::stderr(), "tessera-broker: {text}");
}

impl Broker {
    fn new(options: &Options, folder: Folder, most_connections: usize) -> Result<Broker, ServeError> {
        let unknown = || ServeError::Policy(options.policy.clone());
        let mut core =
            Core::new(&options.policy, Bytes::from_mib(options.context_mib)).ok_or_else(unknown)?;
        let open = |path| OpenOptions::new().append(true).create(true).open(path);
        let log = options.log.as_ref().map(open).transpose().map_err(ServeError::io("open the event log"))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC);
        let epoll = epoll.map_err(|e| ServeError::io("wait for its sockets")(e.into()))?;
        let t = now();
        let jobs = folder.jobs(|why| message(&why));
        let mut effects = Vec::new();
        for added in &jobs {
            match core.add_job(&added.job, &added.opened, t) {
                Ok(done) => effects.extend(done),
                Err(why) => message(&format!("job {} cannot go on: {why}", added.job.job)),
            }
        }
        let file = folder.table()?;
        let opened = Table::open(&file, |uuid| core.number(uuid));
        let (table, records) = opened.map_err(ServeError::io("map the table of leases"))?;
        effects.extend(core.restore(&records, t));
        let mut broker = Broker {
            core,
            table,
            looker: Looker::new(options.nvml.clone()),
            log,
            overuse: options.overuse,
            epoll,
            sources: BTreeMap::new(),
            next: 0,
            connections: BTreeMap::new(),
            processes: BTreeMap::new(),
            per_job: BTreeMap::new(),
            most_connections,
            next_look: (!jobs.is_empty()).then(Instant::now),
            look_after: SOON,
            orphans: (!records.is_empty()).then(|| Instant::now() + ORPHANS),
            is_stopping: false,
            folder,
        };
        broker.carry_out(effects);
        for process in broker.core.processes() {
            match connection::hold(process) {
                Some(handle) => broker.watch_process(process, handle),
                None => broker.process_ended(process),
            }
        }
        let named: Vec<u32> = broker.core.jobs().collect();
        for job in named {
            broker.listen(job).map_err(ServeError::io("listen for a job"))?;
        }
        let listener = control::listen(&broker.folder.socket("control.sock"));
        let listener = listener.map_err(ServeError::io("listen for root"))?;
        broker.watch(Source::Root(listener)).map_err(|e| ServeError::io("wait for root")(e.into()))?;
        Ok(broker)
    }

    fn run(&mut self) -> Result<(), ServeError> {
        let mut events = Vec::with_capacity(64);
        while !self.is_stopping {
            let wake = self.next_look.into_iter().chain(self.orphans).min();
            let wait = wake.map(|at| at.saturating_duration_since(Instant::now()));
            let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
            match epoll::wait(&self.epoll, spare_capacity(&mut events), wait.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(ServeError::io("wait for its sockets")(e.into())),
            }
            let tokens: Vec<u64> = events.drain(..).map(|event: epoll::Event| event.data.u64()).collect();
            tokens.into_iter().for_each(|token| self.ready(token));
            if self.next_look.is_some_and(|at| at <= Instant::now()) {
                self.look();
            }
            if self.orphans.take_if(|at| *at <= Instant::now()).is_some() {
                self.withdraw_orphans();
            }
        }
        Ok(())
    }

    fn watch(&mut self, source: Source) -> Result<u64, Errno> {
        let token = self.next;
        self.next += 1;
        let fd = match &source {
            Source::Root(listener) => listener.as_fd(),
            Source::Control(control) => control.stream.as_fd(),
            Source::Job(_, fd) | Source::Process(_, fd) => fd.as_fd(),
            Source::Connection(connection) => connection.fd.as_fd(),
        };
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?;
        self.sources.insert(token, source);
        Ok(token)
    }

    fn ready(&mut self, token: u64) {
        match self.sources.get_mut(&token) {
            Some(Source::Root(listener)) => {
                if let Ok((stream, _)) = listener.accept() {
                    // One that cannot be watched hangs up.
                    let _ = Control::new(stream).map(|control| self.watch(Source::Control(control)));
                }
            }
            Some(Source::Control(control)) => match control.receive() {
                control::Came::Request(request) => self.answer(token, &request),
                control::Came::Unreadable(why) => self.send_control(token, &Answer::Refused { why }),
                control::Came::Nothing => {}
                control::Came::HungUp => drop(self.sources.remove(&token)),
            },
            Some(Source::Job(job, fd)) => {
                let job = *job;
                let uid = self.core.job(job).map(|(uid, _)| uid);
                if let Some(Ok(Some((fd, process, handle)))) = uid.map(|uid| connection::accept(fd, uid)) {
                    self.connected(job, fd, process, handle);
                }
            }
            Some(Source::Connection(connection)) => {
                let mut packet = [0; REQUEST_LEN];
                match connection.receive(&mut packet) {
                    connection::Came::Packet(length) => {
                        self.request(token, &packet[..length.min(REQUEST_LEN)], length)
                    }
                    connection::Came::Nothing => {}
                    connection::Came::HungUp => self.hang_up(token),
                }
            }
            Some(Source::Process(process, _)) => {
                let process = *process;
                self.process_ended(process);
            }
            None => {}
        }
    }

    fn connected(&mut self, job: u32, fd: OwnedFd, process: Process, handle: OwnedFd) {
        let here = self.per_job.entry(job).or_default();
        if *here >= JOB_CONNECTIONS || self.sources.len() >= self.most_connections {
            return;
        }
        *here += 1;
        let connection = Connection { fd, job, process, asked: BTreeSet::new() };
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

    fn watch_process(&mut self, process: Process, handle: OwnedFd) {
        if self.processes.contains_key(&process) {
            return;
        }
        match self.watch(Source::Process(process, handle)) {
            Ok(token) => drop(self.processes.insert(process, token)),
            Err(e) => message(&format!("process {} cannot be watched: {e}", process.pid)),
        }
    }

    fn request(&mut self, token: u64, packet: &[u8], length: usize) {
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
                connection.send(&Reply::Refused(Refused {
                    nonce: 0,
                    code: Code::Unreadable,
                    need: 0,
                    most: 0,
                    why,
                }));
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
                connection.asked.insert((Image { process, image: begin.image }, begin.nonce));
                self.core.begin(job, process, &begin, now())
            }
            Ok(task_wire::Request::Free { image, nonce }) => {
                let effects = self.core.free(Image { process, image }, nonce, now());
                if effects.is_empty() {
                    let why = Text::cut("the task neither lives nor waits");
                    connection.send(&Reply::Refused(Refused {
                        nonce,
                        code: Code::Unknown,
                        need: 0,
                        most: 0,
                        why,
                    }));
                }
                effects
            }
        };
        self.carry_out(effects);
    }

    /// The peer is gone. What only it waited for is withdrawn; what it holds, it keeps.
    fn hang_up(&mut self, token: u64) {
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

    fn is_asked(&self, process: Process, task: &(Image, u64)) -> bool {
        let tokens = self.connections.get(&process).into_iter().flatten();
        tokens.filter_map(|token| self.sources.get(token)).any(|source| match source {
            Source::Connection(connection) => connection.asked.contains(task),
            _ => false,
        })
    }

    /// Stops watching a process without connections and leases.
    fn forget_process(&mut self, process: Process) {
        let is_needed = self.connections.contains_key(&process) || self.core.knows(process);
        if let Some(token) = self.processes.get(&process).copied().filter(|_| !is_needed) {
            self.processes.remove(&process);
            self.sources.remove(&token);
        }
    }

    fn process_ended(&mut self, process: Process) {
        if let Some(token) = self.processes.remove(&process) {
            self.sources.remove(&token);
        }
        let effects = self.core.process_ended(process, now());
        self.carry_out(effects);
        self.look_soon();
    }

    fn look_soon(&mut self) {
        self.look_after = SOON;
        self.next_look = Some(Instant::now());
    }

    /// Asks NVML about every device.
    fn look(&mut self) {
        let devices: Vec<_> = self.core.uuids().map(|(id, uuid)| (id, uuid.to_owned())).collect();
        for (id, uuid) in devices {
            let effects = match self.looker.look(&uuid) {
                Ok(sample) => self.core.sampled(id, &sample, now()),
                Err(why) => self.core.lost(id, &why),
            };
            self.carry_out(effects);
        }
        let wait = if self.core.awaits_ends() {
            self.look_after = (self.look_after * 2).min(LATER);
            Some(self.look_after)
        } else if self.core.is_in_use() {
            Some(IN_USE)
        } else {
            self.core.uuids().next().map(|_| IDLE)
        };
        if wait.is_none() {
            self.looker.unload();
        }
        self.next_look = wait.map(|wait| Instant::now() + wait);
    }

    fn withdraw_orphans(&mut self) {
        for (image, nonce) in self.core.waiting() {
            if !self.is_asked(image.process, &(image, nonce)) {
                let effects = self.core.withdraw(image, nonce, now());
                self.carry_out(effects);
            }
        }
    }

    /// Carries out what the core decided, in order: a lease is in the table before anybody is told.
    fn carry_out(&mut self, effects: Vec<Effect>) {
        let mut lines = String::new();
        for effect in effects {
            match effect {
                Effect::Log(line) => lines.push_str(&format!("{line}\n")),
                Effect::Save(record) => {
                    let device = match record.of {
                        Of::Context(device, _) => Some(device),
                        Of::Task(task) => task.stage.device(),
                    };
                    let uuid = device.and_then(|id| self.core.uuid(id)).unwrap_or_default().to_owned();
                    if !self.table.save(&Stored { record, uuid }) {
                        message("the table of leases is full: a lease would not outlive the broker");
                    }
                }
                Effect::Erase(key) => self.table.erase(key),
                Effect::Reply(process, reply) => self.reply(process, &reply),
                Effect::Overuse { process, uuid, excess, lasts } => {
                    self.overused(process, &uuid, excess, lasts)
                }
            }
        }
        let log = self.log.as_mut().filter(|_| !lines.is_empty());
        if let Some(e) = log.and_then(|log| log.write_all(lines.as_bytes()).err()) {
            message(&format!("the event log cannot be written: {e}"));
            self.log = None;
        }
        // Somebody may have come.
        if self.core.is_in_use() {
            let at = Instant::now() + IN_USE;
            self.next_look = Some(self.next_look.map_or(at, |next| next.min(at)));
        }
    }

    fn reply(&mut self, process: Process, reply: &Reply) {
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

    fn overused(&mut self, process: Process, uuid: &str, excess: u64, lasts: bool) {
        if !lasts {
            message(&format!(
                "process {} uses {excess} bytes of {uuid} that it was not promised",
                process.pid
            ));
        } else if self.overuse == Overuse::End && overuse::end(process) {
            message(&format!("process {} was ended: it used {excess} bytes of {uuid} too many", process.pid));
        }
    }

    fn send_control(&mut self, token: u64, answer: &Answer) {
        if let Some(Source::Control(control)) = self.sources.get_mut(&token)
            && !control.send(answer)
        {
            self.sources.remove(&token);
        }
    }

    fn answer(&mut self, token: u64, request: &Request) {
        let answer = match request {
            Request::Add(job) => self.add(job).map_or_else(|why| Answer::Refused { why }, |()| Answer::Done),
            Request::End { job } => self.end(*job),
            Request::Status => {
                let child = std::process::id();
                let parent =
                    rustix::process::getppid().and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok());
                // Init takes the place of a parent that was killed.
                let parent = parent.filter(|pid| *pid > 1).unwrap_or(child);
                Answer::Status(task_control::Status { parent, child, ..self.core.status(now()) })
            }
            Request::Hold { uuid, why } => match self.core.hold(uuid, why.as_deref(), now()) {
                Some(effects) => {
                    self.carry_out(effects);
                    Answer::Done
                }
                None => Answer::Refused { why: format!("no job shares device {uuid}") },
            },
            Request::Stop => match self.core.jobs().count() {
                0 => {
                    self.is_stopping = true;
                    Answer::Done
                }
                n => Answer::Refused { why: format!("{n} jobs share its devices: end them first") },
            },
        };
        self.send_control(token, &answer);
    }

    fn add(&mut self, job: &task_control::Job) -> Result<(), String> {
        let new: Vec<String> = self.core.unopened(job).into_iter().map(str::to_owned).collect();
        let opened = new.iter().map(|uuid| self.looker.opened(uuid)).collect::<Result<Vec<_>, String>>()?;
        let is_new = self.core.job(job.job).is_none();
        let effects = self.core.add_job(job, &opened, now()).map_err(|e| e.to_string())?;
        self.carry_out(effects);
        if !is_new {
            return Ok(());
        }
        let opened = job.devices.iter().filter_map(|device| self.core.opened(&device.uuid)).collect();
        let noted = self.folder.note(&AddedJob { job: job.clone(), opened });
        let listens = noted.and_then(|()| self.listen(job.job));
        if self.next_look.is_none() {
            self.next_look = Some(Instant::now() + IDLE);
        }
        listens.map_err(|e| {
            self.end(job.job);
            format!("job {} cannot be listened for: {e}", job.job)
        })
    }

    fn listen(&mut self, job: u32) -> std::io::Result<()> {
        let uid = self.core.job(job).map_or(0, |(uid, _)| uid);
        let fd = connection::listen(&self.folder.socket(&format!("{job}.sock")), uid)?;
        self.watch(Source::Job(job, fd))?;
        Ok(())
    }

    fn end(&mut self, job: u32) -> Answer {
        self.folder.forget(job);
        let of_job = |source: &Source| match source {
            Source::Job(of, _) => *of == job,
            Source::Connection(connection) => connection.job == job,
            _ => false,
        };
        let effects = self.core.end_job(job, now());
        self.carry_out(effects);
        let tokens: Vec<u64> =
            self.sources.iter().filter(|(_, source)| of_job(source)).map(|(token, _)| *token).collect();
        for token in tokens {
            match self.sources.get(&token) {
                Some(Source::Connection(_)) => self.hang_up(token),
                _ => drop(self.sources.remove(&token)),
            }
        }
        self.per_job.remove(&job);
        self.look_after = SOON;
        self.look();
        Answer::Ended(self.core.left(job))
    }
}
