//! Finds the processes of an MPS daemon and makes sure that they are the ones we started.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, sockopt};
use rustix::process::{Pid, PidfdFlags, Signal};

/// A process, held so that its id cannot come to mean another.
pub(super) struct Held {
    pub(super) pid: u32,
    pub(super) start_time: u64,
    fd: OwnedFd,
}

impl Held {
    /// The process with this id if it runs as `uid`, is an MPS program and, where given, started at `start_time`.
    pub(super) fn find(pid: u32, start_time: Option<u64>, uid: u32) -> Option<Self> {
        let raw = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let fd = rustix::process::pidfd_open(raw, PidfdFlags::empty()).ok()?;
        // What /proc says after the handle was opened is about this process or about nothing.
        let started = start_time_of(pid)?;
        let same = start_time.is_none_or(|t| t == started);
        (same && owner(pid) == Some(uid) && is_mps(pid)).then_some(Self { pid, start_time: started, fd })
    }

    /// True until it has ended; a zombie has.
    pub(super) fn alive(&self) -> bool {
        start_time_of(self.pid) == Some(self.start_time)
    }

    pub(super) fn signal(&self, signal: Signal) {
        // Fails only when it has ended meanwhile.
        let _ = rustix::process::pidfd_send_signal(&self.fd, signal);
    }
}

/// The process that listens on a daemon's control socket. While too many others call at the same time for it to be asked,
/// it is the oldest of the daemon's processes.
pub(super) fn listener(pipe_dir: &Path, uid: u32) -> Option<Held> {
    let address = SocketAddrUnix::new(pipe_dir.join("control")).ok()?;
    let flags = rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).ok()?;
    match rustix::net::connect(&socket, &address) {
        Err(Errno::AGAIN) => return all_of(pipe_dir, uid).into_iter().min_by_key(|held| held.start_time),
        other => other.ok()?,
    }
    let peer = sockopt::socket_peercred(&socket).ok()?;
    let pid = u32::try_from(peer.pid.as_raw_nonzero().get()).ok()?;
    Held::find(pid, None, uid)
}

/// Every MPS program of `uid` that was started for `pipe_dir`, servers too: for daemons whose socket is gone.
pub(super) fn all_of(pipe_dir: &Path, uid: u32) -> Vec<Held> {
    let wanted = format!("CUDA_MPS_PIPE_DIRECTORY={}", pipe_dir.display());
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = processes.flatten().filter_map(|e| e.file_name().to_string_lossy().parse::<u32>().ok());
    let ours = |pid: &u32| {
        is_mps(*pid)
            && std::fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|env| env.split(|b| *b == 0).any(|v| v == wanted.as_bytes()))
    };
    pids.filter(ours).filter_map(|pid| Held::find(pid, None, uid)).collect()
}

/// Control program and server alike; the kernel keeps the first 15 characters.
fn is_mps(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|c| c.trim() == "nvidia-cuda-mps")
}

fn owner(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Clock ticks since boot; `None` for a process that has ended.
fn start_time_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; state is the first field after it, start time the 20th.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mps_programs_are_found() {
        let me = std::process::id();
        assert!(start_time_of(me).is_some());
        assert_eq!(owner(me), Some(rustix::process::geteuid().as_raw()));
        assert!(Held::find(me, None, 0).is_none(), "the test is no MPS program");
        assert!(Held::find(u32::MAX, None, 0).is_none());
    }
}
