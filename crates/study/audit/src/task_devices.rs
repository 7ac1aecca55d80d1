//! Devices that GPU tasks can share, and who may use them.

use geometry::{GpuIndex, Profile};
use node_state::{Ask, Gpu, GpuState, Holder, Node, Policy, Seat};
use protocol::{MigSpec, ShareOn};

use crate::every_place::every_place;

/// Seats and memory that a device offers to GPU tasks.
pub(crate) struct Offer {
    pub(crate) seats: u32,
    pub(crate) memory_mib: u64,
}

/// `None` for a device that does not exist.
pub(crate) fn offer(gpu: &Gpu, policy: &Policy, on: ShareOn) -> Option<Offer> {
    let pool = policy.tasks?;
    let profile = match on {
        ShareOn::Gpu(_) => None,
        ShareOn::Instance(spec) => Some(gpu.model.profiles.iter().find(|p| p.id == spec.profile)?),
    };
    let (slices, shards, memory_mib) = match profile {
        None => (gpu.model.compute_slices, gpu.model.shards(), gpu.model.usable_mib()),
        Some(p) => (p.compute_slices, gpu.model.profile_shards(p), p.memory_mib),
    };
    let mps = 48 * u32::from(slices) / u32::from(gpu.model.compute_slices);
    let wanted = pool.workers_per_slice * u32::from(slices);
    Some(Offer { seats: [wanted, mps, shards].into_iter().min()?, memory_mib })
}

/// Seats of a device; none for one that does not exist.
pub(crate) fn seats_of(gpu: &Gpu, policy: &Policy, on: ShareOn) -> u32 {
    offer(gpu, policy, on).map_or(0, |offer| offer.seats)
}

/// Memory that a device must have, MiB.
pub(crate) fn needed(ask: &Ask, policy: &Policy) -> u64 {
    let context = policy.tasks.map_or(0, |pool| pool.context_mib);
    ask.request.mem_mib.map_or(0, |mem| mem + context)
}

/// Who may use a device of the pool; `None` for a device that is not in the pool.
pub(crate) fn users(gpu: &Gpu, on: ShareOn) -> Option<&[Seat]> {
    match (on, &gpu.state) {
        (ShareOn::Gpu(_), GpuState::Tasks(seats)) => Some(seats),
        (ShareOn::Instance(spec), GpuState::Mig(instances)) => {
            instances.iter().find_map(|i| match &i.holder {
                Holder::Pool(seats) if (i.profile, i.start) == (spec.profile, spec.start) => Some(&seats[..]),
                _ => None,
            })
        }
        _ => None,
    }
}

/// Every device that a GPU has or could have.
pub(crate) fn devices(node: &Node, at: GpuIndex) -> Vec<ShareOn> {
    let places = every_place(node).filter(|spec| spec.gpu == at).map(ShareOn::Instance);
    std::iter::once(ShareOn::Gpu(at)).chain(places).collect()
}

/// The devices of the pool on a GPU that the job may use, with their seats and those that are taken.
pub(crate) fn joinable(node: &Node, ask: &Ask, policy: &Policy, at: GpuIndex) -> Vec<(ShareOn, u32, u32)> {
    let Some(gpu) = node.gpus.get(usize::from(at.0)) else { return Vec::new() };
    let one = |on: ShareOn| {
        let (users, offer) = (users(gpu, on)?, offer(gpu, policy, on)?);
        let same_user = policy.share_between_users || users.iter().all(|s| s.uid == ask.uid);
        let taken = users.iter().map(|s| s.seats).sum();
        let may = same_user && !claimed(node, on) && offer.memory_mib >= needed(ask, policy);
        may.then_some((on, offer.seats, taken))
    };
    devices(node, at).into_iter().filter_map(one).collect()
}

/// The units of a device; all of the GPU's without MIG.
fn units(gpu: &Gpu, on: ShareOn) -> Vec<u32> {
    let profile_of =
        |spec: MigSpec| -> Option<&Profile> { gpu.model.profiles.iter().find(|p| p.id == spec.profile) };
    match on {
        ShareOn::Instance(spec) => {
            profile_of(spec).map_or_else(Vec::new, |p| crate::state::units_of(p, spec.start))
        }
        ShareOn::Gpu(_) => (0..u32::from(gpu.model.placement_units)).collect(),
    }
}

/// Tells whether an isolated job has claimed some of a device.
pub(crate) fn claimed(node: &Node, on: ShareOn) -> bool {
    let Some(gpu) = node.gpus.get(usize::from(on.gpu().0)) else { return false };
    let own = units(gpu, on);
    let here = node.claims.iter().filter(|c| c.on.gpu() == on.gpu());
    here.flat_map(|c| units(gpu, c.on)).any(|unit| own.contains(&unit))
}
