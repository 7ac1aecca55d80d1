//! The state that every device node should have, from the journal alone.
//!
//! The node of a GPU is closed while no job has anything on the GPU. While one user has, it is that user's. While several
//! users have instances on it, everybody may open it: a node has one owner, and the capability nodes guard the instances.
//! Everybody may also open it while jobs have shards of it that Slurm alone has given out, as without Tessera.

use std::collections::BTreeMap;

use super::device_nodes::{Access, DeviceError, Devices, gpu_node};
use crate::settings::Settings;
use node_driver::{GpuMinor, NvmlIndex};
use node_journal::{Entry, GpuRecord, GrantKind, Phase};

/// A GPU as the driver shows it now, and its node.
pub struct GpuFacts {
    /// NVML's number of it.
    pub gpu: NvmlIndex,
    /// UUID.
    pub uuid: String,
    /// The minor number of its device file.
    pub minor: GpuMinor,
}

/// Derives the access to a GPU's node from the entries of live jobs.
pub(super) fn gpu_access<'e>(
    settings: &Settings,
    uuid: &str,
    live: impl IntoIterator<Item = &'e Entry>,
) -> Access {
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

/// Gives the access that admits everyone whom either admits.
fn both_caps(a: Access, b: Access) -> Access {
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
pub(crate) fn caps(
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

/// Names relative to `dev_root` with the access they should have. `entries` are those of live jobs. The nodes that
/// let administrators configure and monitor MIG are not ours and are left out, and so are those of GPUs that are not.
pub fn device_nodes(
    settings: &Settings,
    devices: &Devices,
    gpus: &[GpuFacts],
    entries: &[Entry],
) -> Result<BTreeMap<String, Access>, DeviceError> {
    let mut wanted = BTreeMap::new();
    let mut spared = devices.admin_caps()?;
    for facts in gpus.iter().filter(|f| settings.must_not_touch(f.gpu)) {
        spared.extend(devices.caps_of(facts.minor)?);
    }
    for name in devices.cap_nodes().into_iter().filter(|n| !spared.contains(n)) {
        wanted.insert(name, Access::CAP_CLOSED);
    }
    for facts in gpus.iter().filter(|f| !settings.must_not_touch(f.gpu)) {
        wanted.insert(gpu_node(facts.minor), gpu_access(settings, &facts.uuid, entries));
    }
    let now = |gpu: &GpuRecord| gpus.iter().find(|f| f.uuid == gpu.uuid).map(|f| f.minor);
    for entry in entries.iter().filter(|e| e.phase == Phase::Ready) {
        for (name, access) in caps(settings, devices, entry, &now)? {
            let others = wanted.get(&name).copied().unwrap_or(Access::CAP_CLOSED);
            wanted.insert(name, both_caps(others, access));
        }
    }
    Ok(wanted)
}
