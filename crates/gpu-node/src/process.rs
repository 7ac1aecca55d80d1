//! Processes, held so that their ids cannot come to mean others.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal};

/// A process whose id keeps meaning it.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) pid: u32,
    /// Clock ticks since boot.
    pub(crate) start_time: u64,
    fd: OwnedFd,
}

impl Held {
    /// The process with this id; `None` if it has ended.
    pub(crate) fn open(pid: u32) -> Option<Self> {
        let raw = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let fd = rustix::process::pidfd_open(raw, PidfdFlags::empty()).ok()?;
        // What /proc says after the handle was opened is about this process or about nothing.
        Some(Self { pid, start_time: start_time_of(pid)?, fd })
    }

    /// True until it has ended; a zombie has.
    pub(crate) fn alive(&self) -> bool {
        start_time_of(self.pid) == Some(self.start_time)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // Fails only when it has ended meanwhile.
        let _ = rustix::process::pidfd_send_signal(&self.fd, signal);
    }
}

/// The ids of all processes.
pub(crate) fn all() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().to_string_lossy().parse().ok())
}

/// A process's user.
pub(crate) fn owner(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Its parent.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; the parent is the second field after it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// A variable of the environment that it was started with. A user may have changed it.
pub(crate) fn variable(pid: u32, name: &str) -> Option<String> {
    let environ = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let value = |one: &[u8]| one.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec);
    String::from_utf8(environ.split(|b| *b == 0).find_map(value)?).ok()
}

/// Its program's name, of which the kernel keeps the first 15 characters. A user may have changed it.
pub(crate) fn name(pid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim().chars().map(|c| if c.is_control() { '?' } else { c }).collect())
}

/// When a process started, clock ticks since boot; `None` for one that has ended.
#[must_use]
pub fn start_time_of(pid: u32) -> Option<u64> {
    start_and_parent_of(pid).map(|(start, _)| start)
}

/// When a process started, clock ticks since boot, and its parent's id; `None` for one that has ended.
#[must_use]
pub fn start_and_parent_of(pid: u32) -> Option<(u64, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; after it come the state, the parent and, 20th, the start time.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let (state, parent) = (fields.next()?, fields.next()?.parse().ok()?);
    if matches!(state, "Z" | "X") { None } else { Some((fields.nth(17)?.parse().ok()?, parent)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_held_while_it_lives() {
        let me = std::process::id();
        assert!(Held::open(me).unwrap().alive() && all().any(|pid| pid == me));
        assert_eq!(owner(me), Some(rustix::process::geteuid().as_raw()));
        assert_eq!(parent(me), Some(std::os::unix::process::parent_id()));
        assert_eq!(variable(me, "PATH"), std::env::var("PATH").ok());
        assert!(Held::open(u32::MAX).is_none());
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let held = Held::open(child.id()).unwrap();
        held.signal(Signal::KILL);
        child.wait().unwrap();
        assert!(!held.alive());
    }
}
