//! Finds the processes of an MPS daemon and makes sure that they are the ones we started.

use std::path::Path;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, sockopt};

use crate::process::{Held, owner};

/// The MPS program with this id if it runs as `uid` and, where given, started at `start_time`.
pub(super) fn find(pid: u32, start_time: Option<u64>, uid: u32) -> Option<Held> {
    let held = Held::open(pid)?;
    let same = start_time.is_none_or(|t| t == held.start_time);
    (same && owner(pid) == Some(uid) && is_mps(pid)).then_some(held)
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
    find(pid, None, uid)
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
    pids.filter(ours).filter_map(|pid| find(pid, None, uid)).collect()
}

/// Control program and server alike; the kernel keeps the first 15 characters.
pub(super) fn is_mps(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|c| c.trim() == "nvidia-cuda-mps")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mps_programs_are_found() {
        let me = std::process::id();
        assert!(find(me, None, 0).is_none(), "the test is no MPS program");
        assert!(find(u32::MAX, None, 0).is_none());
    }
}
