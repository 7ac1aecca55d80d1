//! The loop.

mod clients;
mod effects;
mod looks;
mod root;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use task_control::message::Answer;
use task_sched::Bytes;
use task_wire::REQUEST_LEN;

use super::connection::{self, Connection};
use super::control::{self, Control};
use super::files::{self, Folder};
use super::mps::Daemons;
use super::nvml::Looker;
use super::options::{Options, Overuse};
use super::privilege::{drop_capabilities, raise_limit};
use super::table::Table;
use super::{ANOTHER_SERVES, ServeError};
use crate::core::{Core, Process};

/// Longest time that a task that waited under a broker that died may wait for its process to come back.
const ORPHANS: Duration = Duration::from_secs(10);
/// Between two looks at the devices: while somebody's end is awaited, at first; while somebody is there; else.
const SOON: Duration = Duration::from_millis(10);
const IN_USE: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(10);

/// Most events taken from the kernel at once.
const EVENTS: usize = 1024;
/// Requests beyond the first of each job are served for as long as this before the kernel is asked who else came.
const TURN: Duration = Duration::from_millis(1);

/// Something that epoll watches.
enum Source {
    Root(UnixListener),
    Control(Control),
    Job(u32, OwnedFd),
    Connection(Connection),
    Process(Process, OwnedFd),
}

impl Source {
    /// The job whose processes make it ready as often as they like, and when it was served last.
    fn sender(&self) -> Option<(u32, u64)> {
        match self {
            Source::Job(job, _) => Some((*job, 0)),
            Source::Connection(connection) => Some((connection.job, connection.served)),
            Source::Root(_) | Source::Control(_) | Source::Process(..) => None,
        }
    }
}

struct Broker {
    core: Core,
    folder: Folder,
    table: Table,
    looker: Looker,
    daemons: Daemons,
    log: Option<File>,
    overuse: Overuse,
    epoll: OwnedFd,
    sources: BTreeMap<u64, Source>,
    next: u64,
    connections: BTreeMap<Process, BTreeSet<u64>>,
    processes: BTreeMap<Process, u64>,
    per_job: BTreeMap<u32, usize>,
    most_connections: usize,
    turns: u64,
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
        let unlogged = |e| message(&format!("the event log cannot be opened, and gets no decisions: {e}"));
        let log = options.log.as_deref().and_then(|path| files::event_log(path).map_err(unlogged).ok());
        if log.is_none() {
            core.stop_log();
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC);
        let epoll = epoll.map_err(|e| ServeError::io("wait for its sockets")(e.into()))?;
        let t = now();
        let jobs = folder.jobs(|why| message(&why));
        for added in &jobs {
            // Its lines would name some of the devices: the section of the log that follows names all.
            if let Err(why) = core.add_job(&added.job, &added.opened, t) {
                message(&format!("job {} cannot go on: {why}", added.job.job));
            }
        }
        let file = folder.table()?;
        let opened = Table::open(&file, |uuid| core.device(uuid));
        let (table, records) = opened.map_err(ServeError::io("map the table of leases"))?;
        let effects = core.restore(&records, t);
        let mut broker = Broker {
            core,
            table,
            looker: Looker::new(options.nvml.clone()),
            daemons: Daemons::default(),
            log,
            overuse: options.overuse,
            epoll,
            sources: BTreeMap::new(),
            next: 0,
            connections: BTreeMap::new(),
            processes: BTreeMap::new(),
            per_job: BTreeMap::new(),
            most_connections,
            turns: 0,
            next_look: (!jobs.is_empty()).then(Instant::now),
            look_after: SOON,
            orphans: (!records.is_empty()).then(|| Instant::now() + ORPHANS),
            is_stopping: false,
            folder,
        };
        broker.carry_out(effects);
        broker.listen_to_all()?;
        Ok(broker)
    }

    /// Waits for the processes that have leases, for every job, and for root.
    fn listen_to_all(&mut self) -> Result<(), ServeError> {
        for process in self.core.processes() {
            match connection::hold(process) {
                Some(handle) => self.watch_process(process, handle),
                None => self.process_ended(process),
            }
        }
        let named: Vec<u32> = self.core.jobs().collect();
        for job in named {
            self.listen(job).map_err(ServeError::io("listen for a job"))?;
        }
        let listener = control::listen(&self.folder.socket("control.sock"));
        let listener = listener.map_err(ServeError::io("listen for root"))?;
        self.watch(Source::Root(listener)).map_err(|e| ServeError::io("wait for root")(e.into()))?;
        Ok(())
    }

    fn run(&mut self) -> Result<(), ServeError> {
        let mut events = Vec::with_capacity(EVENTS);
        while !self.is_stopping {
            let wake = self.next_look.into_iter().chain(self.orphans).min();
            let wait = wake.map(|at| at.saturating_duration_since(Instant::now()));
            let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
            match epoll::wait(&self.epoll, spare_capacity(&mut events), wait.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(ServeError::io("wait for its sockets")(e.into())),
            }
            let tokens: Vec<u64> = events.drain(..).map(|event: epoll::Event| event.data.u64()).collect();
            self.serve_in_turns(&tokens);
            if self.next_look.is_some_and(|at| at <= Instant::now()) {
                self.look();
            }
            if self.orphans.take_if(|at| *at <= Instant::now()).is_some() {
                self.withdraw_orphans();
            }
        }
        Ok(())
    }

    /// Serves what is ready. Whatever is left out is ready again at the next wait.
    fn serve_in_turns(&mut self, tokens: &[u64]) {
        let ready: Vec<turns::Ready> =
            tokens.iter().map(|token| (*token, self.sources.get(token).and_then(Source::sender))).collect();
        let (order, always) = turns::in_turns(&ready);
        let start = Instant::now();
        for (at, token) in order.into_iter().enumerate() {
            if at >= always && start.elapsed() >= TURN {
                return;
            }
            self.ready(token);
        }
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
                self.turns += 1;
                connection.served = self.turns;
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
}
