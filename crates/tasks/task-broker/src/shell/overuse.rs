//! Processes that use more than they were promised.

use rustix::process::{Signal, pidfd_send_signal};

use super::connection::hold;
use crate::core::Process;

/// Finds the owner of a process: its real user.
pub(super) fn owner(process: Process) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid)).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?.parse().ok()
}

/// Ends a process. Root's processes stay. Whoever calls keeps the MPS programs out: a process's name says nothing, because its
/// user can change it.
pub(super) fn end(process: Process) -> bool {
    let Some(handle) = hold(process) else { return false };
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid)).unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let is_root = field("Uid:").is_none_or(|ids| ids.split_whitespace().any(|id| id == "0"));
    !is_root && pidfd_send_signal(handle, Signal::KILL).is_ok()
}
