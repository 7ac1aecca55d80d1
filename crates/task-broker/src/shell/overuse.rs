//! Processes that use more than they were promised.

use rustix::process::{Signal, pidfd_send_signal};

use super::connection::hold;
use crate::core::Process;

/// Whose a process is, by its real user.
pub(super) fn owner(process: Process) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid)).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?.parse().ok()
}

/// Ends a process. Root's processes and MPS programs stay: a server's memory is its clients'.
pub(super) fn end(process: Process) -> bool {
    let Some(handle) = hold(process) else { return false };
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid)).unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let is_root = field("Uid:").is_none_or(|ids| ids.split_whitespace().any(|id| id == "0"));
    // The kernel keeps the first 15 characters.
    let is_mps = field("Name:").is_none_or(|name| name == "nvidia-cuda-mps");
    !is_root && !is_mps && pidfd_send_signal(handle, Signal::KILL).is_ok()
}
