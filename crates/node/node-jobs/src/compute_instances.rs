//! Makes the compute instance that a job was granted in a GPU instance that other jobs may use too.
//!
//! Approach: a GPU instance that others have compute instances in stays as it is, but for idle compute instances in the way.
//! One that nobody has is emptied of processes like any idle instance, and made where it is missing.
//!
//! A compute instance that stands idle where the job's goes is used again only in a GPU instance that nobody has: elsewhere
//! the driver's list of processes does not tell whose they are, so it is made anew, which the driver refuses while a process
//! is in it.

use geometry::{Model, Placement};

use crate::access::{Access, Devices};
use crate::driver::Driver;
use crate::fault::Fault;
use crate::gpu_settings::GpuSettings;
use crate::hand_over::HandOver;
use crate::instances::{create_bare, destroy, offered, wait_in_use};
use node_driver::NvmlIndex;
use node_driver::deadline::Deadline;
use node_driver::nvml::{ComputeInstance, GpuInstance, LiveProfile, Nvml};
use node_journal::{Entry, InstanceRecord, LiveInstance, PartRecord};

/// Makes the compute instance `part` of `record`, on `gpu`, which is in MIG mode, and fills in what exists. `others` are
/// the entries of the jobs that stay.
pub(crate) fn make(
    driver: &mut Driver<'_>,
    devices: &Devices,
    (gpu, described): (NvmlIndex, Option<GpuSettings>),
    (record, part): (&mut InstanceRecord, PartRecord),
    others: &[Entry],
    hand_over: &mut HandOver<'_>,
    deadline: &Deadline,
) -> Result<(), Fault> {
    let model: &'static Model = driver.model(gpu, described)?;
    let nvml = driver.nvml()?;
    let profile = offered(nvml, gpu, model, record)?;
    let uuid = nvml.uuid(gpu)?;
    let beside = Beside::of(others, &uuid);
    let mut instance = match standing(nvml, gpu, record.placement(), &profile, &beside, hand_over, deadline)?
    {
        Some(instance) => instance,
        None => {
            let needed: Vec<Placement> = beside.places.iter().copied().chain([record.placement()]).collect();
            let around = (&beside.places[..], &needed[..]);
            create_bare(nvml, devices, gpu, &profile, record.placement(), around, deadline)?
        }
    };
    let ci = compute_instance(nvml, devices, gpu, &mut instance, part, &beside, deadline)?;
    record.live = Some(LiveInstance { gi: instance.id, ci: ci.id, uuid: ci.uuid });
    Ok(())
}

/// Places and compute instances that other jobs have on the GPU.
struct Beside<'a> {
    places: Vec<Placement>,
    parts: Vec<&'a InstanceRecord>,
}

impl<'a> Beside<'a> {
    fn of(others: &'a [Entry], uuid: &str) -> Self {
        let here = || others.iter().flat_map(|o| o.instances_on(uuid));
        Self {
            places: here().map(InstanceRecord::placement).collect(),
            parts: here().filter(|i| i.part.is_some()).collect(),
        }
    }

    /// Compute slices of the GPU instance at this place that other jobs have.
    fn held(&self, at: Placement) -> u16 {
        let there = self.parts.iter().filter(|i| i.placement() == at);
        there.filter_map(|i| i.part).fold(0, |mask, part| mask | part.mask())
    }
}

/// The GPU instance that stands where the wanted one goes. What lies there and will not do is destroyed.
fn standing(
    nvml: &Nvml,
    gpu: NvmlIndex,
    at: Placement,
    profile: &LiveProfile,
    beside: &Beside<'_>,
    hand_over: &mut HandOver<'_>,
    deadline: &Deadline,
) -> Result<Option<GpuInstance>, Fault> {
    let mut found = None;
    for instance in nvml.instances(gpu)? {
        let right = instance.profile == profile.id && instance.placement == at;
        if !instance.overlaps(at) {
            continue;
        }
        if beside.places.contains(&instance.placement) {
            found = right.then_some(instance);
        } else if hand_over.instance(nvml, gpu, &instance)? && right {
            found = Some(instance);
        } else {
            destroy(nvml, gpu, &instance, deadline)?;
        }
    }
    Ok(found)
}

/// The wanted compute instance of a GPU instance. Idle ones in its way are destroyed.
fn compute_instance(
    nvml: &Nvml,
    devices: &Devices,
    gpu: NvmlIndex,
    instance: &mut GpuInstance,
    part: PartRecord,
    beside: &Beside<'_>,
    deadline: &Deadline,
) -> Result<ComputeInstance, Fault> {
    let held = beside.held(instance.placement);
    let same = |ci: &ComputeInstance| ci.mask() == part.mask();
    if let Some(ci) = instance.compute.iter().find(|ci| held == 0 && same(ci)) {
        return Ok(ci.clone());
    }
    let in_the_way = |ci: &&ComputeInstance| ci.mask() & part.mask() != 0 && ci.mask() & held == 0;
    for ci in instance.compute.iter().filter(in_the_way) {
        node_journal::crash::point("before destroy");
        let what = || format!("compute instance {} of GPU instance {}, which must go,", ci.id, instance.id);
        wait_in_use(gpu, what, deadline, || nvml.destroy_compute(gpu, instance, ci))?;
        node_journal::crash::point("after destroy");
    }
    let what = || format!("GPU instance {}, where compute slice {} is needed,", instance.id, part.start);
    let at = (part.slices.into(), part.start.into());
    let made = wait_in_use(gpu, what, deadline, || nvml.create_compute_part(gpu, instance, at));
    if made.is_err() && instance.compute.is_empty() {
        // Best effort: what is left of it is destroyed by the next job that needs the place.
        let _ = nvml.destroy(gpu, instance);
    }
    let ci = made?;
    // Another job's may have had this number before.
    let [_, node] = devices.caps(nvml.minor(gpu)?, instance.id, ci.id)?;
    devices.set(&node, Access::CAP_CLOSED)?;
    node_journal::crash::point("after create");
    Ok(ci)
}
