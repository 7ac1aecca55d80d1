//! Processes that use more than they were promised.

use node_driver::process::users;
use rustix::process::{Signal, pidfd_send_signal};

use super::connection::hold;
use crate::core::Process;

/// Ends a process. Root's processes stay. Whoever calls keeps the MPS programs out: a process's name says nothing, because its
/// user can change it.
pub(super) fn end(process: Process) -> bool {
    let Some(handle) = hold(process) else { return false };
    let users = users(process.pid);
    !users.is_empty() && !users.contains(&0) && pidfd_send_signal(handle, Signal::KILL).is_ok()
}
