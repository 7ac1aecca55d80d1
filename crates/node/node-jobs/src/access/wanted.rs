//! The state that every device node should have, from the journal alone.
//!
//! The node of a GPU is closed while no job has anything on the GPU. While one user has, it is that user's. While several
//! users have instances on it, everybody may open it: a node has one owner, and the capability nodes guard the instances.
//! Everybody may also open it while jobs have shards of it that Slurm alone has given out, as without Tessera.

use super::device_nodes::{Access, DeviceError, Devices};
use crate::settings::Settings;
use node_driver::GpuMinor;
use node_journal::{Entry, GpuRecord, GrantKind};

/// Derives the access to a GPU's node from the entries of live jobs.
#[must_use]
pub fn gpu_access<'e>(settings: &Settings, uuid: &str, live: impl IntoIterator<Item = &'e Entry>) -> Access {
    let mut access = Access::CLOSED;
    for entry in live.into_iter().filter(|e| e.is_given() && e.uses(uuid)) {
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

/// Derives the access to a capability node from the entries of live jobs that name it.
pub(super) fn cap_access<'e>(
    settings: &Settings,
    name: &str,
    live: impl IntoIterator<Item = &'e Entry>,
) -> Access {
    let users = live.into_iter().filter(|e| e.is_given() && e.device_nodes.iter().any(|n| n == name));
    users.map(|entry| own_caps(settings, entry)).fold(Access::CAP_CLOSED, both_caps)
}

/// Gives the access to a job's capability nodes if no other job has them.
fn own_caps(settings: &Settings, entry: &Entry) -> Access {
    if shared_by_all(settings, entry) { Access::CAP_OPEN } else { Access::cap_of(entry.uid) }
}

/// Gives the access to a capability node that admits everyone whom either admits.
#[must_use]
pub fn both_caps(a: Access, b: Access) -> Access {
    match (a, b) {
        (Access::CAP_CLOSED, other) | (other, Access::CAP_CLOSED) => other,
        (a, b) if a == b => a,
        _ => Access::CAP_OPEN,
    }
}

/// Tells whether every user may use the job's devices.
fn shared_by_all(settings: &Settings, entry: &Entry) -> bool {
    entry.kind == GrantKind::Shards || entry.shares_device() && settings.share_between_users
}

/// The capability nodes that make a ready job's instances the job's, and how they must be if no other job has them. `minor`
/// tells the number of the node of one of its GPUs; none for a GPU that is not there.
pub fn caps(
    settings: &Settings,
    devices: &Devices,
    entry: &Entry,
    minor: &dyn Fn(&GpuRecord) -> Option<GpuMinor>,
) -> Result<Vec<(String, Access)>, DeviceError> {
    let mut grants = Vec::new();
    let access = own_caps(settings, entry);
    for instance in &entry.instances {
        let minor = entry.gpu_of(instance).and_then(minor);
        if let (Some(minor), Some(live)) = (minor, &instance.live) {
            grants.extend(devices.caps(minor, live.gi, live.ci)?.map(|name| (name, access)));
        }
    }
    Ok(grants)
}
