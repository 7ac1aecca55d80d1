//! How every device node should be, from the journal.

use std::collections::BTreeMap;

use placement::GpuIndex;

use crate::devices::{Access, Devices, gpu_node};
use crate::fault::Fault;
use crate::gpu_access;
use crate::journal::{Entry, Kind, Phase};
use crate::realise;
use crate::settings::Settings;

/// A GPU and its node.
pub(crate) struct GpuFacts {
    pub(crate) gpu: GpuIndex,
    pub(crate) minor: u32,
}

/// Names relative to `dev_root` with the access they should have. `entries` are those of live jobs. The nodes that
/// let administrators configure and monitor MIG are not ours.
pub(crate) fn device_nodes(
    settings: &Settings,
    devices: &Devices,
    gpus: &[GpuFacts],
    entries: &[Entry],
) -> Result<BTreeMap<String, Access>, Fault> {
    let mut expected = BTreeMap::new();
    let spared = devices.admin_caps()?;
    for name in devices.cap_nodes().into_iter().filter(|n| !spared.contains(n)) {
        expected.insert(name, Access::CAP_CLOSED);
    }
    for facts in gpus {
        expected.insert(gpu_node(facts.minor), gpu_access::of(settings, facts.gpu, entries));
    }
    for entry in entries.iter().filter(|e| e.phase == Phase::Ready) {
        expected.extend(realise::caps(settings, devices, entry)?);
    }
    Ok(expected)
}

/// The entry that has all of this GPU, if any.
pub(crate) fn whole_holder(entries: &[Entry], gpu: GpuIndex) -> Option<&Entry> {
    entries.iter().find(|e| e.holds() && e.uses(gpu) && e.kind == Kind::Whole)
}
