//! A process's connection.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use node_driver::process::{start_time_of, text};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::process::{Pid, PidfdFlags};
use task_wire::{REQUEST_LEN, Reply};

use super::files::give;
use crate::core::{Image, Process};

/// A connection of a process of a job.
pub(super) struct Connection {
    pub(super) fd: OwnedFd,
    pub(super) job: u32,
    pub(super) process: Process,
    /// Tasks that it asked for and that were not answered.
    pub(super) asked: BTreeSet<(Image, u64)>,
    /// The broker's count of turns when it was served last.
    pub(super) served: u64,
}

/// Outcome of a read from a connection.
pub(super) enum Came {
    Packet(usize),
    Nothing,
    HungUp,
}

impl Connection {
    /// Reads a packet. The length may exceed the buffer's: then it is no request.
    pub(super) fn receive(&self, buffer: &mut [u8; REQUEST_LEN]) -> Came {
        match rustix::net::recv(&self.fd, &mut buffer[..], RecvFlags::TRUNC | RecvFlags::DONTWAIT) {
            Ok((_, 0)) => Came::HungUp,
            Ok((_, length)) => Came::Packet(length),
            Err(Errno::AGAIN | Errno::INTR) => Came::Nothing,
            Err(_) => Came::HungUp,
        }
    }

    /// Sends a reply. `false` where the peer is gone or does not read.
    pub(super) fn send(&self, reply: &Reply) -> bool {
        let sent = rustix::net::send(&self.fd, &reply.encode(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        sent == Ok(task_wire::REPLY_LEN)
    }
}

/// Listens at `path` for one user.
pub(super) fn listen(path: &Path, uid: u32) -> std::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    rustix::net::bind(&fd, &SocketAddrUnix::new(path)?)?;
    give(path, uid)?;
    rustix::net::listen(&fd, 4096)?;
    Ok(fd)
}

/// The next connection, with the process that made it and a handle on it; `Ok(None)` for one that is to be hung up.
pub(super) fn accept(listener: impl AsFd, uid: u32) -> Result<Option<(OwnedFd, Process, OwnedFd)>, Errno> {
    let fd = rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    let Ok(peer) = sockopt::socket_peercred(&fd) else { return Ok(None) };
    if peer.uid.as_raw() != uid {
        return Ok(None);
    }
    // Whoever connected may have ended already, and its number may be another user's process by now. A program that takes on another
    // user's rights keeps one of its user's.
    Ok(process(peer.pid)
        .filter(|(process, _)| users(process.pid).contains(&uid))
        .map(|(process, handle)| (fd, process, handle)))
}

/// A process's users: real, effective, saved, and that of its files.
pub(super) fn users(pid: u32) -> Vec<u32> {
    let status = text(pid, "status").unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    ids.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// A live process with a handle on it: what /proc says after the handle was opened is about this process or about nothing.
fn process(pid: Pid) -> Option<(Process, OwnedFd)> {
    let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let pid = u32::try_from(pid.as_raw_nonzero().get()).ok()?;
    Some((Process { pid, start: start_time_of(pid)? }, handle))
}

/// A handle on a process that is still the one that it was.
pub(super) fn hold(wanted: Process) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(wanted.pid).ok()?)?;
    process(pid).filter(|(found, _)| *found == wanted).map(|(_, handle)| handle)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;

    /// Its name stands above its users, and a user chooses it.
    #[test]
    fn a_process_of_any_name_has_four_users() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join(OsString::from_vec(b"a\xff\nUid:\t7".to_vec()));
        std::fs::copy("/bin/sleep", &program).unwrap();
        let mut child = std::process::Command::new(&program).arg("600").spawn().unwrap();
        let found = super::users(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, [rustix::process::geteuid().as_raw(); 4]);
        assert!(super::users(u32::MAX).is_empty());
    }
}
