//! Sets the nodes of a job's GPUs anew whenever the job comes or goes.
//!
//! The nodes' lock is held from reading the journal until the change is journalled, so the last to come or go sees all
//! others.

use std::time::Duration;

use super::device_nodes::{Access, DeviceError, Devices, gpu_node};
use super::wanted::{cap_access, gpu_access};
use crate::settings::Settings;
use node_driver::deadline::Deadline;
use node_journal::own_dirs::StateError;
use node_journal::{Entry, GpuRecord, Journal};

/// Sets the nodes of an entry's GPUs as all other live jobs and, if it stays, the entry itself want them. A leaving job's node
/// that by its number is another live job's other GPU now is left alone: a GPU went or came between their starts, and
/// reconciliation, which asks the driver, sets it. While a job's
/// file is damaged, nobody on a shared GPU loses access: a later reconciliation takes back what is too much. Returns what
/// could not be set. The caller holds the nodes' lock.
pub(crate) fn settle(
    settings: &Settings,
    journal: &Journal,
    devices: &Devices,
    entry: &Entry,
    stays: bool,
) -> Result<Vec<DeviceError>, StateError> {
    // Whoever gives or takes back reports the damaged files.
    let (mut live, damaged) = journal.jobs()?.into_parts();
    let lost = journal.lost_jobs(&live, &damaged)?.into_iter().any(|job| job != entry.job());
    let beside_lost = lost && may_share(entry, stays);
    live.retain(|e| e.job != entry.job && e.boot == journal.boot());
    if stays {
        live.push(entry.clone());
    }
    let set = |gpu: &GpuRecord| {
        let (name, wanted) = (gpu_node(gpu.minor), gpu_access(settings, &gpu.uuid, &live));
        let now = if beside_lost { devices.get(&name) } else { Ok(None) };
        now.and_then(|now| devices.set(&name, now.map_or(wanted, |now| no_less(now, wanted)))).err()
    };
    let own = entry.gpus.iter().filter(|g| !settings.must_not_touch(g.index));
    Ok(own.filter(|gpu| stays || !is_anothers(gpu, &live)).filter_map(set).collect())
}

/// The capability nodes of an entry as all other live jobs and, if it stays, the entry itself want them. Jobs in one GPU
/// instance have its node in common. While a job's file is damaged, nobody in such a GPU instance loses access. The caller
/// holds the nodes' lock.
pub(crate) fn caps_now(
    settings: &Settings,
    journal: &Journal,
    entry: &Entry,
    stays: bool,
) -> Result<Vec<(String, Access)>, StateError> {
    let (mut live, damaged) = journal.jobs()?.into_parts();
    let lost = journal.lost_jobs(&live, &damaged)?.into_iter().any(|job| job != entry.job());
    live.retain(|e| e.job != entry.job && e.boot == journal.boot());
    if stays {
        live.push(entry.clone());
    }
    let keeps = lost && entry.instances.iter().any(|i| i.part.is_some());
    let names = entry.device_nodes.iter().filter(|name| name.contains('/'));
    let wanted = names.map(|name| (name.clone(), cap_access(settings, name, &live)));
    Ok(wanted.filter(|(_, access)| !(keeps && *access == Access::CAP_CLOSED)).collect())
}

/// Tells whether a live job has another GPU with the same minor number.
fn is_anothers(gpu: &GpuRecord, live: &[Entry]) -> bool {
    let other = |g: &GpuRecord| g.minor == gpu.minor && g.uuid != gpu.uuid;
    live.iter().any(|e| e.is_given() && e.gpus.iter().any(other))
}

/// Tells whether a job that the journal does not know may be on this entry's GPUs, so that its access must stay. Whole GPUs
/// are one job's alone. A GPU that is shared without instances has one user, whose access a new share does not take.
fn may_share(entry: &Entry, stays: bool) -> bool {
    !(entry.has_whole_gpus() || stays && entry.instances.is_empty())
}

/// Chooses an access that takes nothing from anyone who has access `now`.
fn no_less(now: Access, wanted: Access) -> Access {
    match (now, wanted) {
        (Access::CLOSED, _) => wanted,
        (_, Access::CLOSED) => now,
        (now, wanted) if now == wanted => now,
        _ => Access::OPEN,
    }
}

/// Longest wait for the nodes' lock: it is only held while the journal is read.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The deadline for the nodes' lock.
pub(crate) fn lock_deadline() -> Deadline {
    Deadline::after(LOCK_TIMEOUT)
}
