//! Who may open a GPU's own node: computed anew from the journal whenever a job comes or goes.
//!
//! Nobody while no job has anything on the GPU, its only user while one has, everybody where several have instances
//! on it: a node has one owner, and the capability nodes guard the instances. The nodes' lock is held from reading the
//! journal until the change is journalled, so the last to come or go sees all others.

use placement::GpuIndex;

use crate::deadline::Deadline;
use crate::devices::{Access, DeviceError, Devices, gpu_node};
use crate::fault::Fault;
use crate::journal::{Entry, Journal, Kind};
use crate::settings::Settings;

/// How a GPU's node must be, from the entries of live jobs.
pub(crate) fn of<'e>(
    settings: &Settings,
    gpu: GpuIndex,
    live: impl IntoIterator<Item = &'e Entry>,
) -> Access {
    let mut access = Access::CLOSED;
    for entry in live.into_iter().filter(|e| e.is_given() && e.uses(gpu)) {
        let own = Access::gpu_of(entry.uid);
        access = match access {
            _ if shared_by_all(settings, entry) => return Access::OPEN,
            Access::CLOSED => own,
            before if before == own => own,
            _ => return Access::OPEN,
        };
    }
    access
}

/// Whether every user may use what the job uses.
pub(crate) fn shared_by_all(settings: &Settings, entry: &Entry) -> bool {
    entry.kind == Kind::Mps && settings.share_between_users
}

/// Sets the nodes of an entry's GPUs as all other live jobs and, if it stays, the entry itself want them. The caller
/// holds the nodes' lock.
pub(crate) fn settle(
    settings: &Settings,
    journal: &Journal,
    devices: &Devices,
    entry: &Entry,
    stays: bool,
) -> Result<Vec<DeviceError>, Fault> {
    let mut live = journal.jobs(&mut Vec::new())?;
    live.retain(|e| e.job != entry.job && e.boot == journal.boot());
    if stays {
        live.push(entry.clone());
    }
    let set = |gpu: &crate::journal::GpuRecord| {
        devices.set(&gpu_node(gpu.minor), of(settings, GpuIndex(gpu.index), &live)).err()
    };
    Ok(entry.gpus.iter().filter_map(set).collect())
}

/// How long the nodes' lock is waited for: nobody holds it for longer than it takes to read the journal.
const LOCK_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// The deadline for the nodes' lock.
pub(crate) fn lock_deadline() -> Deadline {
    Deadline::after(LOCK_TIMEOUT)
}
