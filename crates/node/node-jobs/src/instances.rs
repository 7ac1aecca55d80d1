//! Makes the instances of one GPU that a job was granted.
//!
//! Approach: an instance that stands at the right place with the right profile is used again, if nobody was on it. One that
//! lies in the way and belongs to nobody is destroyed. The rest is created at its placement.
//!
//! While the driver answers `IN_USE`, the call is repeated until the deadline. After `INSUFFICIENT_RESOURCES` it is
//! repeated once everything half made is destroyed, then after each idle instance that is destroyed: some hold more than
//! their slices (the media engines of `+me`).

use geometry::{Model, Placement, ProfileId};
use protocol::MigSpec;

use crate::access::{Access, Devices};
use crate::driver::Driver;
use crate::fault::Fault;
use crate::gpu_settings::GpuSettings;
use crate::hand_over::HandOver;
use crate::hardware::compare_profile;
use node_driver::NvmlIndex;
use node_driver::deadline::{Backoff, Deadline};
use node_driver::nvml::{Code, ComputeInstance, GpuInstance, LiveProfile, Nvml, NvmlError};
use node_journal::{InstanceRecord, LiveInstance, PartRecord};

/// An instance as planned, before it exists: size and name from the geometry table, because a driver may not list
/// profiles while MIG is off.
pub(crate) fn plan(
    driver: &mut Driver<'_>,
    spec: MigSpec<NvmlIndex>,
    compute: Option<(PartRecord, u64)>,
    described: Option<GpuSettings>,
) -> Result<InstanceRecord, Fault> {
    let model = driver.model(spec.gpu, described)?;
    let profile = model.profile_by_id(spec.profile).ok_or_else(|| Fault::NoSuchProfile {
        gpu: spec.gpu,
        profile: spec.profile,
        name: format!("of {}", model.key),
    })?;
    Ok(InstanceRecord {
        gpu: spec.gpu,
        profile: profile.id.0,
        name: compute.map_or_else(|| profile.name.clone(), |(part, _)| profile.compute_name(part.slices)),
        start: spec.start.0,
        size: profile.size,
        memory_mib: compute.map_or(profile.memory_mib, |(_, states)| states),
        part: compute.map(|(part, _)| part),
        live: None,
    })
}

/// Makes `wanted`, all on `gpu`, which is in MIG mode, and fills in what exists; a compute instance is for
/// [`crate::compute_instances`]. `kept` are the places of other jobs' instances.
pub(crate) fn make(
    driver: &mut Driver<'_>,
    devices: &Devices,
    (gpu, described): (NvmlIndex, Option<GpuSettings>),
    wanted: &mut [&mut InstanceRecord],
    kept: &[Placement],
    hand_over: &mut HandOver<'_>,
    deadline: &Deadline,
) -> Result<(), Fault> {
    let model = driver.model(gpu, described)?;
    let nvml = driver.nvml()?;
    let mut profiles = Vec::new();
    for record in wanted.iter_mut() {
        let live = offered(nvml, gpu, model, record)?;
        record.memory_mib = live.memory_mib;
        profiles.push(live);
    }
    let standing = clear(nvml, gpu, wanted, &profiles, kept, hand_over, deadline)?;
    let needed: Vec<Placement> = kept.iter().copied().chain(wanted.iter().map(|r| r.placement())).collect();
    for (record, profile) in wanted.iter_mut().zip(&profiles) {
        let instance = match standing.iter().find(|i| fits(i, record, profile)) {
            Some(instance) => instance.clone(),
            None => create(nvml, devices, gpu, profile, record.placement(), (kept, &needed), deadline)?,
        };
        record.live = live_of(&instance);
    }
    Ok(())
}

fn live_of(instance: &GpuInstance) -> Option<LiveInstance> {
    let all = |ci: &ComputeInstance| LiveInstance { gi: instance.id, ci: ci.id, uuid: ci.uuid.clone() };
    instance.compute.first().map(all)
}

/// The driver's profile for a planned instance, which it must be able to place as planned; fills in the instance's size.
pub(crate) fn offered(
    nvml: &Nvml,
    gpu: NvmlIndex,
    model: &'static Model,
    record: &mut InstanceRecord,
) -> Result<LiveProfile, Fault> {
    let missing =
        || Fault::NoSuchProfile { gpu, profile: ProfileId(record.profile), name: record.name.clone() };
    let planned = model.profile_by_id(ProfileId(record.profile)).ok_or_else(missing)?;
    let live = nvml.profile_like(gpu, planned)?.ok_or_else(missing)?;
    compare_profile(gpu, &live, model, planned)?;
    let place = nvml.placements(gpu, live.id)?.into_iter().find(|p| p.start.0 == record.start);
    let place = place.ok_or_else(|| Fault::NoSuchPlacement {
        gpu,
        name: record.name.clone(),
        start: record.placement().start,
    })?;
    record.size = place.size;
    Ok(live)
}

/// Fills in the site's own instances, as they stand on `gpu`. Nothing is made, destroyed or switched. One that no job of
/// `kept` has is emptied of other processes; it cannot be made anew, so memory that stays in use stops the job.
pub(crate) fn take_static<'r>(
    driver: &mut Driver<'_>,
    (gpu, described): (NvmlIndex, Option<GpuSettings>),
    wanted: impl Iterator<Item = &'r mut InstanceRecord>,
    kept: &[Placement],
    hand_over: &mut HandOver<'_>,
) -> Result<(), Fault> {
    let model = driver.model(gpu, described)?;
    let nvml = driver.nvml()?;
    let standing = if nvml.mig_mode(gpu)?.current { nvml.instances(gpu)? } else { Vec::new() };
    for record in wanted {
        let planned = model.profile_by_id(ProfileId(record.profile));
        let live = planned.map_or(Ok(None), |p| nvml.profile_like(gpu, p))?;
        let here = live.and_then(|profile| {
            record.memory_mib = profile.memory_mib;
            standing.iter().find(|i| fits(i, record, &profile)).cloned()
        });
        let missing = || Fault::NoStatic { gpu, name: record.name.clone(), start: record.placement().start };
        let instance = here.ok_or_else(missing)?;
        if !kept.contains(&instance.placement) {
            hand_over.fixed_instance(nvml, gpu, &instance)?;
        }
        record.live = live_of(&instance);
    }
    Ok(())
}

/// Destroys every instance of a GPU that nobody holds.
pub fn destroy_all(nvml: &Nvml, gpu: NvmlIndex, deadline: &Deadline) -> Result<(), Fault> {
    for instance in nvml.instances(gpu)? {
        destroy(nvml, gpu, &instance, deadline)?;
    }
    Ok(())
}

/// True for the instance that is wanted: one compute instance that takes all of it.
fn fits(instance: &GpuInstance, record: &InstanceRecord, profile: &LiveProfile) -> bool {
    instance.profile == profile.id
        && instance.placement == record.placement()
        && matches!(&instance.compute[..], [ci] if ci.slices == profile.slices)
}

/// Destroys what lies where the wanted instances go, and returns what stands there already.
fn clear(
    nvml: &Nvml,
    gpu: NvmlIndex,
    wanted: &[&mut InstanceRecord],
    profiles: &[LiveProfile],
    kept: &[Placement],
    hand_over: &mut HandOver<'_>,
    deadline: &Deadline,
) -> Result<Vec<GpuInstance>, Fault> {
    let mut standing = Vec::new();
    for instance in nvml.instances(gpu)? {
        let mut wanted_here = wanted.iter().zip(profiles).filter(|(r, _)| instance.overlaps(r.placement()));
        let changes_hands = wanted_here.clone().next().is_some() && !kept.contains(&instance.placement);
        let as_new = !changes_hands || hand_over.instance(nvml, gpu, &instance)?;
        if changes_hands && !(as_new && wanted_here.any(|(r, p)| fits(&instance, r, p))) {
            destroy(nvml, gpu, &instance, deadline)?;
        } else {
            standing.push(instance);
        }
    }
    Ok(standing)
}

/// Destroys one instance, waiting while it is in use.
pub(crate) fn destroy(
    nvml: &Nvml,
    gpu: NvmlIndex,
    instance: &GpuInstance,
    deadline: &Deadline,
) -> Result<(), Fault> {
    node_journal::crash::point("before destroy");
    let what = || format!("GPU instance {} at {}, which must go,", instance.id, instance.placement.start);
    wait_in_use(gpu, what, deadline, || nvml.destroy(gpu, instance))?;
    node_journal::crash::point("after destroy");
    Ok(())
}

/// Creates one instance with the compute instance that takes all of it. See [`create_bare`] for `kept` and `needed`.
fn create(
    nvml: &Nvml,
    devices: &Devices,
    gpu: NvmlIndex,
    profile: &LiveProfile,
    at: Placement,
    (kept, needed): (&[Placement], &[Placement]),
    deadline: &Deadline,
) -> Result<GpuInstance, Fault> {
    let mut instance = create_bare(nvml, devices, gpu, profile, at, (kept, needed), deadline)?;
    let what = || format!("the GPU, where profile {} goes to {},", profile.name, at.start);
    match wait_in_use(gpu, what, deadline, || nvml.create_compute_instance(gpu, &instance)) {
        Ok(ci) => instance.compute = vec![ci],
        Err(fault) => {
            // Best effort: what is left of it is destroyed by the next job that needs the place.
            let _ = nvml.destroy(gpu, &instance);
            return Err(fault);
        }
    }
    node_journal::crash::point("after create");
    Ok(instance)
}

/// Creates one instance without a compute instance. Nothing at the places of other jobs' instances, `kept`, is destroyed for
/// it; nor, once complete, at those that the job itself needs, which `needed` has as well.
pub(crate) fn create_bare(
    nvml: &Nvml,
    devices: &Devices,
    gpu: NvmlIndex,
    profile: &LiveProfile,
    at: Placement,
    (kept, needed): (&[Placement], &[Placement]),
    deadline: &Deadline,
) -> Result<GpuInstance, Fault> {
    let what = || format!("the GPU, where profile {} goes to {},", profile.name, at.start);
    let attempt = || wait_in_use(gpu, what, deadline, || nvml.create_gpu_instance(gpu, profile.id, at));
    node_journal::crash::point("before create");
    let mut made = attempt();
    if no_room(&made) {
        sweep(nvml, gpu, at, kept, deadline)?;
        made = attempt();
    }
    if no_room(&made) {
        let mut idle = nvml.instances(gpu)?;
        idle.retain(|i| !needed.contains(&i.placement));
        idle.sort_by_key(|i| (i.profile != profile.id, i.placement.size));
        for instance in idle {
            destroy(nvml, gpu, &instance, deadline)?;
            made = attempt();
            if !no_room(&made) {
                break;
            }
        }
    }
    let instance = made?;
    node_journal::crash::point("GPU instance without compute instance");
    // The node does not exist yet and is made closed, or a destroyed instance has left it behind, closed. Only where the
    // driver's helper makes nodes (`access::complaint`) anybody could open the new one until now; without it the compute
    // instance is of no use to them.
    let [node, _] = devices.caps(nvml.minor(gpu)?, instance.id, 0)?;
    devices.set(&node, Access::CAP_CLOSED)?;
    Ok(instance)
}

fn no_room<T>(made: &Result<T, Fault>) -> bool {
    matches!(made, Err(Fault::Nvml(e)) if e.code() == Some(Code::INSUFFICIENT_RESOURCES))
}

/// The driver says that there is no room where there should be: half-made instances count, wherever they lie.
fn sweep(
    nvml: &Nvml,
    gpu: NvmlIndex,
    at: Placement,
    kept: &[Placement],
    deadline: &Deadline,
) -> Result<(), Fault> {
    for instance in nvml.instances(gpu)? {
        let remnant = instance.compute.is_empty() || instance.overlaps(at);
        if remnant && !kept.contains(&instance.placement) {
            destroy(nvml, gpu, &instance, deadline)?;
        }
    }
    Ok(())
}

pub(crate) fn wait_in_use<T>(
    gpu: NvmlIndex,
    what: impl Fn() -> String,
    deadline: &Deadline,
    mut attempt: impl FnMut() -> Result<T, NvmlError>,
) -> Result<T, Fault> {
    let mut backoff = Backoff::driver();
    loop {
        match attempt() {
            Err(e) if matches!(e.code(), Some(Code::IN_USE | Code::NOT_READY)) => {
                if !backoff.pause(deadline) {
                    return Err(Fault::Busy { gpu, what: what(), timeout: deadline.timeout });
                }
            }
            other => return Ok(other?),
        }
    }
}
