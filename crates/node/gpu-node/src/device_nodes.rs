//! The state that every device node of the node should have, from the journal and the driver's table.

use std::collections::BTreeMap;

use node_driver::{GpuMinor, NvmlIndex};
use node_jobs::Settings;
use node_jobs::access::{Access, DeviceError, Devices, both_caps, caps, gpu_access, gpu_node};
use node_journal::{Entry, GpuRecord, Phase};

/// A GPU as the driver shows it now, and its node.
pub(crate) struct GpuFacts {
    /// NVML's number of it.
    pub(crate) gpu: NvmlIndex,
    /// UUID.
    pub(crate) uuid: String,
    /// The minor number of its device file.
    pub(crate) minor: GpuMinor,
}

/// Names relative to `dev_root` with the access they should have. `entries` are those of live jobs. The nodes that
/// let administrators configure and monitor MIG are not ours and are left out, and so are those of GPUs that are not.
pub(crate) fn device_nodes(
    settings: &Settings,
    devices: &Devices,
    gpus: &[GpuFacts],
    entries: &[Entry],
) -> Result<BTreeMap<String, Access>, DeviceError> {
    let mut wanted = BTreeMap::new();
    let mut spared = caps_where(settings, |name| matches!(name, "config" | "monitor"))?;
    for facts in gpus.iter().filter(|f| settings.must_not_touch(f.gpu)) {
        let of_gpu = format!("gpu{}/", facts.minor);
        spared.extend(caps_where(settings, |name| name.starts_with(&of_gpu))?);
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

/// The capability nodes, relative to `dev_root`, whose name in the driver's table is one of these; none where there is no table.
fn caps_where(settings: &Settings, wanted: impl Fn(&str) -> bool) -> Result<Vec<String>, DeviceError> {
    let path = settings.node.proc_root.join("driver/nvidia-caps/mig-minors");
    let table = match std::fs::read_to_string(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        other => other.map_err(|source| DeviceError::Io { path, what: "read it", source })?,
    };
    let lines = table.lines().filter_map(|l| l.trim().split_once(' ')).filter(|(name, _)| wanted(name));
    Ok(lines.map(|(_, minor)| format!("nvidia-caps/nvidia-cap{}", minor.trim())).collect())
}
