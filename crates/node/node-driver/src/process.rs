//! Processes, held so that their ids cannot come to mean others.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::process::{Pid, PidfdFlags, Signal};

use crate::process_environ::{self, Unread};

/// A process whose id keeps meaning it.
#[derive(Debug)]
pub struct HeldProcess {
    /// Number.
    pub pid: u32,
    /// Clock ticks since boot.
    pub start_time: u64,
    fd: OwnedFd,
}

impl HeldProcess {
    /// The process with this id; `None` if it has ended.
    pub fn open(pid: u32) -> Option<Self> {
        let raw = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let fd = rustix::process::pidfd_open(raw, PidfdFlags::empty()).ok()?;
        // What /proc says after the handle was opened is about this process or about nothing.
        Some(Self { pid, start_time: start_time_of(pid)?, fd })
    }

    /// True until it has ended.
    pub fn alive(&self) -> bool {
        start_time_of(self.pid) == Some(self.start_time)
    }

    /// Sends it a signal, unless it has ended.
    pub fn signal(&self, signal: Signal) {
        // Fails only when it has ended meanwhile.
        let _ = rustix::process::pidfd_send_signal(&self.fd, signal);
    }
}

/// Tells whether this process has a PID namespace that its parent is outside of: as a step's daemon has where Slurm's namespace/linux
/// makes one for each job. It sees no process of the node but those of its job.
pub fn is_alone_with_its_job() -> bool {
    rustix::process::getppid().is_none()
}

/// The ids of all processes.
pub fn all() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().to_string_lossy().parse().ok())
}

/// A file of a process in `/proc`; `None` for one that has ended. A user chooses the name of his process, and whatever bytes it has, the
/// kernel puts it there: they need not be UTF-8.
pub fn text(pid: u32, file: &str) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/{file}")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A process's user.
pub fn owner(pid: u32) -> Option<u32> {
    number_in(&text(pid, "status")?, "Uid:")
}

/// A process's user, and how many files its table has had room for: more than it has open.
pub fn owner_and_table(pid: u32) -> Option<(u32, u32)> {
    let status = text(pid, "status")?;
    Some((number_in(&status, "Uid:")?, number_in(&status, "FDSize:")?))
}

/// The first number in the line of `/proc/PID/status` that begins so.
fn number_in(status: &str, name: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Parent of a process; `None` for one that has ended.
pub fn parent(pid: u32) -> Option<u32> {
    start_and_parent_of(pid).map(|(_, parent)| parent)
}

/// The directories of its threads. The first thread's, which is `/proc/PID` itself, shows nothing any more once that has ended.
pub fn threads(pid: u32) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten().map(|thread| thread.path())
}

/// A variable of the environment that it was started with. A user may have changed it.
pub fn variable(pid: u32, name: &str) -> Option<String> {
    variable_in(&environ(pid).ok()?, name)
}

/// Threads that are asked for the environment where the first one has ended.
const MOST_THREADS: usize = 16;

/// Reads the environment that it was started with: variables that end with a zero byte each. A user may have changed it.
pub fn environ(pid: u32) -> Result<Vec<u8>, Unread> {
    let mut answer = process_environ::of(&PathBuf::from(format!("/proc/{pid}")));
    for thread in threads(pid).take(MOST_THREADS) {
        if answer != Err(Unread::Gone) {
            break;
        }
        answer = process_environ::of(&thread);
    }
    answer
}

/// A variable of such an environment.
pub fn variable_in(environ: &[u8], name: &str) -> Option<String> {
    let value = |one: &[u8]| one.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec);
    String::from_utf8(environ.split(|b| *b == 0).find_map(value)?).ok()
}

/// Program's name, of which the kernel keeps the first 15 characters. A user may have changed it.
pub fn name(pid: u32) -> Option<String> {
    Some(text(pid, "comm")?.trim().chars().map(|c| if c.is_control() { '?' } else { c }).collect())
}

/// Start time of a process, clock ticks since boot; `None` for one that has ended.
#[must_use]
pub fn start_time_of(pid: u32) -> Option<u64> {
    start_and_parent_of(pid).map(|(start, _)| start)
}

/// Start time of a process, clock ticks since boot, and its parent's id; `None` for one that has ended.
#[must_use]
pub fn start_and_parent_of(pid: u32) -> Option<(u64, u32)> {
    // It is read again if its first thread went meanwhile: then the process has ended, or another thread has taken its place.
    let read = || Stat::parse(&text(pid, "stat")?);
    let stat = read().filter(|stat| stat.threads > 0).or_else(read)?;
    stat.lives.then_some((stat.start_time, stat.parent))
}

/// Fields 3, 4, 20 and 22 of `/proc/PID/stat` (proc(5)).
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    lives: bool,
    parent: u32,
    /// Number of threads that have not ended, and the first one.
    threads: u32,
    start_time: u64,
}

impl Stat {
    fn parse(stat: &str) -> Option<Self> {
        // The name in parentheses may hold anything.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let threads = fields.get(17)?.parse().ok()?;
        // The state is the first thread's. The process lives as long as others go on.
        let lives = !matches!(*fields.first()?, "Z" | "X") || threads > 1;
        Some(Self {
            lives,
            parent: fields.get(1)?.parse().ok()?,
            threads,
            start_time: fields.get(19)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use lab::command::{PATIENCE, wait_for};
    use lab::threads::Running;

    use super::*;

    /// With the first thread's end it keeps its files, its memory and its place on the GPU.
    #[test]
    fn a_process_is_held_without_its_first_thread() {
        let dir = tempfile::tempdir().unwrap();
        let mut program = std::process::Command::new(lab::threads::build(dir.path()).unwrap());
        program.arg("linger").env("A", "b");
        let running = Running::start(&mut program).unwrap().without_first_thread().unwrap();
        let held = HeldProcess::open(running.0.id()).expect("it lives");
        assert!(held.alive());
        assert_eq!(variable(held.pid, "A").as_deref(), Some("b"));
        held.signal(Signal::KILL);
        wait_for(
            "all its threads to end",
            PATIENCE,
            || if held.alive() { Err(String::new()) } else { Ok(()) },
        )
        .unwrap();
        assert!(HeldProcess::open(held.pid).is_none(), "nobody has waited for it");
    }

    /// A program's file may be called so, and the kernel keeps 15 bytes of a name: half a letter may be the last.
    #[test]
    fn a_process_may_have_any_bytes_as_its_name() {
        use std::os::unix::ffi::OsStringExt as _;
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join(std::ffi::OsString::from_vec(b"a\xff) Z\n(".to_vec()));
        std::fs::copy("/bin/sleep", &program).unwrap();
        let mut child = std::process::Command::new(&program).arg("600").spawn().unwrap();
        let pid = child.id();
        let held = HeldProcess::open(pid).expect("it lives");
        assert!(held.alive() && owner(pid).is_some() && parent(pid) == Some(std::process::id()));
        assert_eq!(name(pid).as_deref(), Some("a\u{fffd}) Z?("));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!held.alive());
    }

    #[test]
    fn a_zombie_with_one_thread_has_ended() {
        let read = |state: char, threads: u32| {
            let rest = "15144 25943 0 -1 4227084 127 0 0 0 0 0 0 0 20 0";
            Stat::parse(&format!("15186 (a) Z (b) {state} 15144 {rest} {threads} 0 6096793 0 0 184467\n"))
                .unwrap()
        };
        assert_eq!(read('Z', 2), Stat { lives: true, parent: 15144, threads: 2, start_time: 6_096_793 });
        assert!(read('S', 1).lives && !read('Z', 1).lives && !read('X', 0).lives);
    }

    #[test]
    fn a_process_is_held_while_it_lives() {
        let me = std::process::id();
        assert!(HeldProcess::open(me).unwrap().alive() && all().any(|pid| pid == me));
        assert_eq!(owner(me), Some(rustix::process::geteuid().as_raw()));
        assert!(owner_and_table(me).is_some_and(|(user, table)| Some(user) == owner(me) && table >= 3));
        assert_eq!(parent(me), Some(std::os::unix::process::parent_id()));
        assert_eq!(variable(me, "PATH"), std::env::var("PATH").ok());
        assert!(HeldProcess::open(u32::MAX).is_none());
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let held = HeldProcess::open(child.id()).unwrap();
        held.signal(Signal::KILL);
        child.wait().unwrap();
        assert!(!held.alive());
    }
}
