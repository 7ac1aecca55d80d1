//! Rights of the process: many files, few capabilities.

use rustix::process::{Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::ServeError;

/// Files that are no connections.
const OTHER_FILES: u64 = 512;

/// Lets the process have as many files as it may, and returns how many of them may be connections.
pub(super) fn raise_limit() -> usize {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(1 << 20).min(1 << 20);
    let raised =
        rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum });
    let current = if raised.is_ok() { most } else { limit.current.unwrap_or(1024) };
    usize::try_from(current.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX)
}

/// Priority of the broker over the programs that it serves, as a step of niceness. They wait for it whenever a task begins,
/// it takes microseconds each time, and the node's cores are busy with just those programs.
const NICER: i32 = -10;

/// Comes before other programs, where it may: else it is only slower.
pub(super) fn raise_priority() {
    let _ = rustix::process::nice(NICER);
}

/// Keeps only: to give a job's socket to its user, to read /proc and device nodes of users, to end a process.
pub(super) fn drop_capabilities() -> Result<(), ServeError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let all =
        CapabilitySet::CHOWN | CapabilitySet::DAC_OVERRIDE | CapabilitySet::KILL | CapabilitySet::SYS_PTRACE;
    let held =
        rustix::thread::capabilities(None).map_err(|e| ServeError::io("read its capabilities")(e.into()))?;
    let kept = all & held.permitted;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).map_err(|e| ServeError::io("drop capabilities")(e.into()))
}
