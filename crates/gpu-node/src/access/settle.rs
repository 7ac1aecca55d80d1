//! Sets the nodes of a job's GPUs anew whenever the job comes or goes.
//!
//! The nodes' lock is held from reading the journal until the change is journalled, so the last to come or go sees all
//! others.

use std::time::Duration;

use super::device_nodes::{DeviceError, Devices, gpu_node};
use super::wanted::gpu_access;
use crate::deadline::Deadline;
use crate::journal::{Entry, GpuRecord, Journal};
use crate::own_dirs::StateError;
use crate::settings::Settings;

/// Sets the nodes of an entry's GPUs as all other live jobs and, if it stays, the entry itself want them. Returns what
/// could not be set. The caller holds the nodes' lock.
pub(crate) fn settle(
    settings: &Settings,
    journal: &Journal,
    devices: &Devices,
    entry: &Entry,
    stays: bool,
) -> Result<Vec<DeviceError>, StateError> {
    // A job whose file is damaged counts as absent here; whoever gives or takes back reports the file.
    let (mut live, _damaged) = journal.jobs()?.into_parts();
    live.retain(|e| e.job != entry.job && e.boot == journal.boot());
    if stays {
        live.push(entry.clone());
    }
    let set =
        |gpu: &GpuRecord| devices.set(&gpu_node(gpu.minor), gpu_access(settings, gpu.index, &live)).err();
    Ok(entry.gpus.iter().filter_map(set).collect())
}

/// How long the nodes' lock is waited for: nobody holds it for longer than it takes to read the journal.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The deadline for the nodes' lock.
pub(crate) fn lock_deadline() -> Deadline {
    Deadline::after(LOCK_TIMEOUT)
}
