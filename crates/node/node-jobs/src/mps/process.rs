//! Finds the processes of an MPS daemon and makes sure that they are the ones we started.
//!
//! A process may have any name, and a user chooses the name of his own. So a process is a daemon's by what the kernel says
//! of it: the file that it runs, its user, and what it inherited.

use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, sockopt};

use super::folders::{Paths, life_path};
use crate::open_files::{FileId, open_files};
use crate::settings::Settings;
use node_driver::deadline::Deadline;
use node_driver::process::{HeldProcess, all, environ, owner};

/// Finds the daemon that was recorded with this process and start time, if it still runs as `uid`.
pub(super) fn recorded(pid: u32, start_time: u64, uid: u32) -> Option<HeldProcess> {
    HeldProcess::open(pid).filter(|held| held.start_time == start_time && owner(pid) == Some(uid))
}

/// The process that listens on a daemon's control socket. While too many others call at the same time for it to be asked,
/// it is the oldest of the daemon's processes.
pub(super) fn listener(settings: &Settings, key: &str, uid: u32) -> Option<HeldProcess> {
    let address = SocketAddrUnix::new(Paths::of(settings, key).pipe.join("control")).ok()?;
    let flags = rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).ok()?;
    match rustix::net::connect(&socket, &address) {
        Err(Errno::AGAIN) => {
            return all_of(settings, key, uid).into_iter().min_by_key(|held| held.start_time);
        }
        other => other.ok()?,
    }
    let peer = sockopt::socket_peercred(&socket).ok()?;
    let pid = u32::try_from(peer.pid.as_raw_nonzero().get()).ok()?;
    let held = HeldProcess::open(pid)?;
    let own = Own::of(settings, key, uid);
    // It was reached through the daemon's directory, which says what its environment would.
    (owner(pid) == Some(uid) && (own.runs_program(pid) || own.holds_life(pid))).then_some(held)
}

/// Finds every process of a daemon, servers too: for daemons whose socket is gone.
pub(super) fn all_of(settings: &Settings, key: &str, uid: u32) -> Vec<HeldProcess> {
    let own = Own::of(settings, key, uid);
    let ours = |pid: u32| HeldProcess::open(pid).filter(|_| own.has(pid));
    all().filter(|pid| *pid != std::process::id()).filter_map(ours).collect()
}

/// Tells a daemon's processes from others.
pub(super) struct Own {
    /// NVIDIA's two programs. The server is in the same directory as the control program.
    programs: Vec<FileId>,
    /// The daemon's user. Root's daemon runs a server for each of its users.
    uid: u32,
    /// As in the environment that the daemon was started with, and its servers inherit.
    variable: String,
    life: Option<FileId>,
    /// Users can run many copies of the programs, and make the kernel take its time with each: no environment is read after this.
    until: Deadline,
}

/// Longest time to look at environments.
const ENVIRONMENTS: Duration = Duration::from_secs(5);

/// Most open files among which a process's hold on its daemon's directory is searched: it is among the first.
const MOST_FILES: usize = 64;

impl Own {
    pub(super) fn of(settings: &Settings, key: &str, uid: u32) -> Self {
        let server = settings.node.mps_control.with_file_name("nvidia-cuda-mps-server");
        let programs = [settings.node.mps_control.clone(), server];
        let pipe = Paths::of(settings, key).pipe;
        Self {
            programs: programs.iter().filter_map(|program| FileId::of(program)).collect(),
            uid,
            variable: format!("CUDA_MPS_PIPE_DIRECTORY={}", pipe.display()),
            life: FileId::of(&life_path(settings, key)),
            until: Deadline::after(ENVIRONMENTS),
        }
    }

    /// Tells whether a process is the daemon or one of its servers.
    pub(super) fn has(&self, pid: u32) -> bool {
        let Some(user) = owner(pid) else { return false };
        if self.uid != 0 && user != self.uid {
            return false;
        }
        // The file first: a user can make an environment slow to read.
        let runs_here = || self.runs_program(pid) && self.was_started_here(pid);
        (user == self.uid && self.holds_life(pid)) || runs_here()
    }

    /// Tells whether it runs one of the programs. Users cannot make another file that one.
    fn runs_program(&self, pid: u32) -> bool {
        FileId::of(format!("/proc/{pid}/exe").as_ref()).is_some_and(|file| self.programs.contains(&file))
    }

    fn was_started_here(&self, pid: u32) -> bool {
        if self.until.passed() {
            return false;
        }
        let environment = environ(pid).unwrap_or_default();
        environment.split(|b| *b == 0).any(|variable| variable == self.variable.as_bytes())
    }

    /// Tells whether it inherited the file that only a daemon's processes have open: one whose program has been replaced since, or
    /// that a script of the site's started.
    fn holds_life(&self, pid: u32) -> bool {
        let look = Deadline::after(Duration::from_millis(100));
        let (found, all) = open_files(pid, self.life.as_slice(), &mut { MOST_FILES }, &look);
        all && !found.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_by_the_time_it_started() {
        let (me, uid) = (std::process::id(), rustix::process::geteuid().as_raw());
        let start = HeldProcess::open(me).unwrap().start_time;
        assert!(recorded(me, start, uid).is_some());
        assert!(recorded(me, start + 1, uid).is_none() && recorded(me, start, uid + 1).is_none());
        assert!(recorded(u32::MAX, start, uid).is_none());
    }

    #[test]
    fn a_file_is_the_same_under_another_name() {
        let dir = tempfile::tempdir().unwrap();
        let [program, link, copy] = ["program", "link", "copy"].map(|name| dir.path().join(name));
        std::fs::write(&program, "").unwrap();
        std::fs::write(&copy, "").unwrap();
        std::os::unix::fs::symlink(&program, &link).unwrap();
        assert_eq!(FileId::of(&program), FileId::of(&link));
        assert_ne!(FileId::of(&program), FileId::of(&copy));
        assert_eq!(FileId::of(&dir.path().join("none")), None);
    }
}
