//! Tells whether the slurmd that started a prolog still waits for it.

use rustix::process::{Pid, getppid};

/// The process that started this one and waits for its outcome: a prolog's slurmd.
///
/// Once it has died, nobody begins the job because of this prolog, and often no epilog follows. A slurmd that is started
/// again runs none for a job that it does not know, or that was to end before it died [22.05 and 24.11 `slurmd/req.c`,
/// "Not running epilog"].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingSlurmd {
    parent: Option<Pid>,
    /// Had died before this process looked: process 1 is the parent, and is no slurmd.
    adopted: bool,
}

impl WaitingSlurmd {
    /// The slurmd that has started this prolog.
    #[must_use]
    pub fn of_this_prolog() -> Self {
        Self::with_parent(getppid(), may_be_slurmd)
    }

    fn with_parent(parent: Option<Pid>, may_be_slurmd: impl Fn(Pid) -> Option<bool>) -> Self {
        let adopted = parent.is_some_and(|p| p.is_init() && may_be_slurmd(p) == Some(false));
        Self { parent, adopted }
    }

    /// True once it has died, which gives this process another parent.
    #[must_use]
    pub fn is_gone(self) -> bool {
        self.adopted || getppid() != self.parent
    }

    /// The slurmd with this process id. It counts as gone unless it is the parent of this process.
    #[must_use]
    pub fn of_process(pid: u32) -> Self {
        Self { parent: i32::try_from(pid).ok().and_then(Pid::from_raw), adopted: false }
    }
}

/// In a container slurmd may be process 1 itself. `None`: not known.
fn may_be_slurmd(pid: Pid) -> Option<bool> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok().filter(|line| !line.is_empty())?;
    Some(String::from_utf8_lossy(&line).contains("slurmd"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_prolog_that_process_1_has_adopted_has_lost_its_slurmd() {
        let adopted = |parent, slurmd| WaitingSlurmd::with_parent(Some(parent), |_| slurmd).adopted;
        let (first, other) = (Pid::INIT, rustix::process::getpid());
        assert!(adopted(first, Some(false)));
        assert!(!adopted(first, Some(true)), "slurmd itself, in a container");
        assert!(!adopted(first, None) && !adopted(other, Some(false)));
        assert!(WaitingSlurmd { parent: getppid(), adopted: true }.is_gone());
        assert!(!WaitingSlurmd { parent: getppid(), adopted: false }.is_gone());
    }

    #[test]
    fn slurmd_is_known_by_its_command_line() {
        for (name, known) in [("/usr/sbin/slurmd", true), ("/usr/bin/tini", false)] {
            let mut first = Command::new("sleep").arg0(name).arg("600").spawn().unwrap();
            // Its command line is there a moment after the program.
            let seen = (0..30_000).find_map(|_| {
                std::thread::sleep(Duration::from_millis(2));
                may_be_slurmd(Pid::from_child(&first))
            });
            first.kill().unwrap();
            first.wait().unwrap();
            assert_eq!(seen, Some(known), "{name}");
        }
    }
}
