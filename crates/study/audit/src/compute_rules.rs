//! Checks that a compute instance may be where it is: its slices, the memory of its GPU instance, and who is beside it.

use geometry::Profile;
use node_state::{Ask, ComputeHold, GpuState, Holder, Node, Policy, Purpose, SharedMemory};
use protocol::{ComputeSpec, Grant, Isolation, MigSpec};

use crate::compute_slices::{check_together, slices_of};
use crate::every_place::every_place;
use crate::finding::{Finding, finding};
use crate::places::check_places;

/// The compute instances that jobs have in a GPU instance; `None` if it has none.
pub(crate) fn holds(node: &Node, within: MigSpec) -> Option<&[ComputeHold]> {
    let GpuState::Mig(instances) = &node.gpus.get(usize::from(within.gpu.0))?.state else { return None };
    instances.iter().find_map(|i| match &i.holder {
        Holder::Compute(holds) if i.profile == within.profile && i.start.0 == within.start.0 => {
            Some(holds.as_slice())
        }
        _ => None,
    })
}

pub(crate) fn profile_of(node: &Node, within: MigSpec) -> Option<&'static Profile> {
    let gpu = node.gpus.get(usize::from(within.gpu.0))?;
    gpu.model.profiles.iter().find(|p| p.id == within.profile)
}

/// Every compute instance that the request names, on every GPU, whether it is free or not.
pub fn every_compute(node: &Node, ask: &Ask) -> Vec<Grant> {
    let Isolation::Mig(Some(name)) = &ask.request.isolation else { return Vec::new() };
    let Some(mem_mib) = ask.request.mem_mib else { return Vec::new() };
    let mut all = Vec::new();
    for within in every_place(node) {
        let Some(profile) = profile_of(node, within) else { continue };
        for size in profile.compute.iter().filter(|c| format!("{}c.{}", c.slices, profile.name) == *name) {
            let part = |start| ComputeSpec { slices: size.slices, start };
            all.extend(size.starts.iter().map(|s| Grant::Compute { within, part: part(*s), mem_mib }));
        }
    }
    all
}

pub(crate) fn check_compute(
    node: &Node,
    ask: &Ask,
    policy: &Policy,
    (within, part): (MigSpec, ComputeSpec),
    mem_mib: u64,
    out: &mut Vec<Finding>,
) {
    let at = within.gpu;
    let gpu = &node.gpus[usize::from(at.0)];
    let Some(profile) = profile_of(node, within) else { return out.push(finding(at, "no such profile")) };
    let name = format!("{}c.{}", part.slices, profile.name);
    if ask.request.isolation != Isolation::Mig(Some(name.clone())) || ask.request.instances > 1 {
        out.push(finding(at, format!("{name} was not asked for")));
    }
    if ask.request.mem_mib != Some(mem_mib) {
        out.push(finding(at, "another memory than asked"));
    }
    let Some(size) = profile.compute.iter().find(|c| c.slices == part.slices) else {
        return out.push(finding(at, format!("no {name}")));
    };
    if !size.starts.iter().any(|s| s.0 == part.start.0) {
        out.push(finding(at, format!("{name} cannot start at {}", part.start)));
    }
    let all_sm: u32 = gpu.model.profiles.iter().map(|p| p.sm).max().unwrap_or(0);
    if ask.request.threads.is_some_and(|t| size.sm * 100 + 2 * all_sm < u32::from(t) * all_sm) {
        out.push(finding(at, format!("{} SMs", size.sm)));
    }
    if policy.shared_memory == SharedMemory::Never {
        out.push(finding(at, "memory would be shared"));
    }
    if gpu.purpose == Purpose::Static {
        out.push(finding(at, "a part of the site's own instance"));
    }
    match holds(node, within) {
        None => check_places(gpu, &[&within], out),
        Some(holds)
            if holds.iter().any(|h| h.uid != ask.uid) && policy.shared_memory != SharedMemory::Any =>
        {
            out.push(finding(at, "beside another user"));
        }
        Some(_) => {}
    }
    let beside = holds(node, within).unwrap_or_default();
    let new = ComputeHold { job: ask.job, uid: ask.uid, part, mem_mib };
    let together: Vec<ComputeHold> = beside.iter().copied().chain([new]).collect();
    check_together(profile, &together, at, out);
}

/// Compute instances of all sizes that could be made before and no more after this one, by size and start.
pub(crate) fn lost(node: &Node, within: MigSpec, part: ComputeSpec) -> u64 {
    let Some(profile) = profile_of(node, within) else { return 0 };
    let before: Vec<u32> = holds(node, within)
        .unwrap_or_default()
        .iter()
        .flat_map(|h| slices_of(h.part.slices, h.part.start.0))
        .collect();
    let new = slices_of(part.slices, part.start.0);
    let free = |slices: &[u32], taken: &[u32]| slices.iter().all(|s| !taken.contains(s));
    let mut n = 0;
    for size in &profile.compute {
        for start in &size.starts {
            let slices = slices_of(size.slices, start.0);
            n += u64::from(free(&slices, &before) && !free(&slices, &new));
        }
    }
    n
}
