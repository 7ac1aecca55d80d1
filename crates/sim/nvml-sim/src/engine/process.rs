//! Processes that use a GPU: CUDA programs, and those that `nvml-sim proc add` registers.

use serde::{Deserialize, Serialize};

/// A registered process. It counts while the process lives; a pid that died, or was reused, does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The process's id.
    pub pid: u32,
    /// Start time from `/proc/PID/stat`, so that a reused pid is not taken for it.
    pub started: u64,
    /// GPU instance it runs in.
    pub gi: Option<u32>,
    /// Compute instance it runs in.
    pub ci: Option<u32>,
    /// Memory it holds, MiB.
    pub memory_mib: u64,
    /// True for a client of an MPS daemon.
    pub mps: bool,
    /// For a CUDA program: until when it counts even if it is dead, milliseconds since boot. Such a process stands in the table of
    /// CUDA contexts and is never written to the state.
    #[serde(skip)]
    pub cuda_until_ms: Option<u64>,
}

impl Process {
    /// True while the process it was registered for lives; of a CUDA program, until the driver has taken its memory back.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        start_time(self.pid) == Some(self.started)
            || self.cuda_until_ms.is_some_and(|until| boot_ms() < until)
    }
}

/// When a process started, in clock ticks since boot; `None` if there is none or it is a zombie. One whose first thread has ended
/// lives as long as others go on.
#[must_use]
pub fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The command's name may hold spaces and parentheses: fields count from the last one.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let threads: u32 = fields.get(17)?.parse().ok()?;
    if matches!(*fields.first()?, "Z" | "X") && threads < 2 {
        return None;
    }
    fields.get(19)?.parse().ok()
}

/// Milliseconds since boot: every process of the node has this clock, and nobody sets it.
#[must_use]
pub fn boot_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (s, ns) = (u64::try_from(now.tv_sec).unwrap_or(0), u64::try_from(now.tv_nsec).unwrap_or(0));
    s * 1000 + ns / 1_000_000
}

/// The first argument of a process's command line.
#[must_use]
pub fn name(pid: u32) -> Option<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let first = line.split(|b| *b == 0).next()?;
    Some(String::from_utf8_lossy(first).into_owned()).filter(|n| !n.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_a_reused_pid_does_not_count() {
        let pid = std::process::id();
        let started = start_time(pid).unwrap();
        let mut p =
            Process { pid, started, gi: None, ci: None, memory_mib: 1, mps: false, cuda_until_ms: None };
        assert!(p.is_alive());
        p.started += 1;
        assert!(!p.is_alive());
        assert_eq!(start_time(u32::MAX), None);
    }
}
