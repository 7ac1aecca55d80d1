//! Finds and removes half-made instances that an interrupted prolog left on a GPU.

use std::time::Duration;

use error_chain::Chain;

use crate::access::{Access, Devices};
use crate::fault::Fault;
use crate::instances;
use node_driver::NvmlIndex;
use node_driver::deadline::Deadline;
use node_driver::nvml::Nvml;
use node_journal::{Entry, GpuRecord, InstanceRecord};

/// Things that were removed.
#[derive(Default)]
pub struct Cleared {
    /// Half-made GPU instances that were destroyed: GPU, GPU instance id.
    pub destroyed: Vec<(NvmlIndex, u32)>,
    /// GPUs whose pending change of MIG mode was taken back.
    pub modes: Vec<NvmlIndex>,
    /// Things that could not be removed; for the log.
    pub problems: Vec<String>,
}

/// Longest wait for a half-made instance that is in use: it can also be destroyed when its place is needed.
const DESTROY_TIMEOUT: Duration = Duration::from_secs(2);

/// Removes what an interrupted prolog left half made on GPUs that the caller has locked. `kept` are the entries of
/// other jobs.
pub fn clear(nvml: &Nvml, gpus: &[NvmlIndex], kept: &[Entry]) -> Cleared {
    let mut cleared = Cleared::default();
    destroy_half_made(nvml, gpus, &mut cleared);
    settle_modes(nvml, gpus, kept, &mut cleared);
    cleared
}

/// Nobody makes an instance on a locked GPU: one without a compute instance is a remnant.
fn destroy_half_made(nvml: &Nvml, gpus: &[NvmlIndex], cleared: &mut Cleared) {
    let deadline = Deadline::after(DESTROY_TIMEOUT);
    for gpu in gpus.iter().copied() {
        let all = match nvml.instances(gpu) {
            Ok(all) => all,
            Err(e) => {
                cleared.problems.push(Chain(&e).to_string());
                continue;
            }
        };
        for instance in all.iter().filter(|i| i.compute.is_empty()) {
            match instances::destroy(nvml, gpu, instance, &deadline) {
                Ok(()) => cleared.destroyed.push((gpu, instance.id)),
                Err(e) => cleared.problems.push(Chain(&e).to_string()),
            }
        }
    }
}

/// A prolog was killed between asking for a mode and the reset that brings it into force: the next job that needs
/// the mode asks again.
fn settle_modes(nvml: &Nvml, gpus: &[NvmlIndex], kept: &[Entry], cleared: &mut Cleared) {
    for gpu in gpus.iter().copied() {
        let Ok(mode) = nvml.mig_mode(gpu) else { continue };
        // Without its UUID nobody can tell whose it is.
        let Ok(uuid) = nvml.uuid(gpu) else { continue };
        if mode.current == mode.pending || kept.iter().any(|e| e.holds() && e.uses(&uuid)) {
            continue;
        }
        match nvml.set_mig_mode(gpu, mode.current) {
            Ok(Ok(())) => cleared.modes.push(gpu),
            Ok(Err(code)) => cleared.problems.push(format!("GPU {gpu}: its pending MIG mode stays: {code}")),
            Err(e) => cleared.problems.push(Chain(&e).to_string()),
        }
    }
}

/// Closes the capability nodes of a GPU's instances and compute instances that no other job holds: the driver's default lets
/// everybody in. `gpu` is as the driver shows it now.
pub(crate) fn close_idle(
    nvml: &Nvml,
    devices: &Devices,
    gpu: &GpuRecord,
    others: &[Entry],
) -> Result<(), Fault> {
    for instance in nvml.instances(gpu.index)? {
        let place = |r: &&InstanceRecord| r.placement() == instance.placement;
        let held: Vec<&InstanceRecord> =
            others.iter().flat_map(|o| o.instances_on(&gpu.uuid)).filter(place).collect();
        if held.iter().any(|r| r.part.is_none()) {
            continue;
        }
        let slices = held.iter().filter_map(|r| r.part).fold(0, |mask, part| mask | part.mask());
        let idle = instance.compute.iter().filter(|ci| ci.mask() & slices == 0).map(|ci| ci.id);
        // One without a compute instance has a node as well.
        let ids: Vec<u32> = if instance.compute.is_empty() { vec![0] } else { idle.collect() };
        for ci in ids {
            let [of_gi, of_ci] = devices.caps(gpu.minor, instance.id, ci)?;
            for name in [Some(of_gi).filter(|_| held.is_empty()), Some(of_ci)].into_iter().flatten() {
                if devices.get(&name)?.is_some() {
                    devices.set(&name, Access::CAP_CLOSED)?;
                }
            }
        }
    }
    Ok(())
}
