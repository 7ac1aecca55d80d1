//! Places of a request on one node, as first-fit, best-fit, NVIDIA's default and MFI weigh them.

use geometry::{GpuIndex, Profile, Slice};
use node_state::{Ask, Gpu, GpuState, Holder, MigPolicy, Node, Purpose};
use protocol::{Grant, MigSpec};

use super::class::Want;
use super::mfi::fragmentation;

/// Preference of a published rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefers {
    /// The first GPU, the first start.
    First,
    /// The fullest GPU; for whole GPUs the fullest node. The start that leaves most placements.
    Fullest,
    /// The first GPU; the start that leaves most placements, as NVIDIA's driver does it within one GPU.
    MostPlacements,
    /// The place at which the fragmentation score grows least.
    LeastFragmentation,
}

/// Units of a GPU that jobs hold, as a bit mask; all if it cannot have an instance.
pub(crate) fn held(gpu: &Gpu) -> u16 {
    match (&gpu.state, gpu.purpose) {
        (GpuState::Free, Purpose::Any) => 0,
        (GpuState::Mig(all), Purpose::Any) => all
            .iter()
            .filter(|i| i.holder != Holder::Idle)
            .map(|i| gpu.profile_of(i).map_or(u16::MAX, |p| p.at(i.start).mask()))
            .fold(0, |held, mask| held | mask),
        _ => u16::MAX,
    }
}

/// Lists the starts at which the profile fits next to what jobs hold.
pub(crate) fn starts(gpu: &Gpu, profile: &Profile) -> Vec<Slice> {
    let held_units = held(gpu);
    if gpu.policy == MigPolicy::Off || !gpu.model.profiles.iter().any(|p| p == profile) {
        return Vec::new();
    }
    let instances = if let GpuState::Mig(all) = &gpu.state { &all[..] } else { &[] };
    let others = || {
        instances
            .iter()
            .filter(|i| i.holder != Holder::Idle)
            .filter_map(|i| gpu.model.profile_by_id(i.profile))
    };
    let compute: u32 = others().map(|p| u32::from(p.compute_slices)).sum();
    let same = others().filter(|p| p.id == profile.id).count();
    let too_many = usize::try_from(profile.max_instances).is_ok_and(|most| same >= most)
        || compute + u32::from(profile.compute_slices) > u32::from(gpu.model.compute_slices)
        || others().any(|p| p.id != profile.id && !geometry::coexist(p, profile));
    let fits = |start: &Slice| profile.at(*start).mask() & held_units == 0 && !too_many;
    profile.starts.iter().copied().filter(fits).collect()
}

/// Finds the best place of the request on the node, with a number that compares nodes, least first.
pub(crate) fn best(node: &Node, ask: &Ask, want: Want, prefers: Prefers) -> Option<(i64, Grant)> {
    match want {
        Want::Instance(profile) => instance(node, ask, profile, prefers),
        Want::Whole(n) => whole(node, ask, n, prefers),
        Want::Other => None,
    }
}

fn instance(node: &Node, ask: &Ask, profile: &Profile, prefers: Prefers) -> Option<(i64, Grant)> {
    let mut best: Option<((i64, i64), MigSpec)> = None;
    for (at, gpu) in node.gpus.iter().enumerate() {
        let index = GpuIndex(u16::try_from(at).unwrap_or(u16::MAX));
        if !ask.permits(index) {
            continue;
        }
        let before = held(gpu);
        let first = at_most(at);
        for start in starts(gpu, profile) {
            let after = before | profile.at(start).mask();
            let fewer = -i64::from(gpu.model.placements_left(after));
            let key = match prefers {
                Prefers::First => (first, i64::from(start.0)),
                Prefers::MostPlacements => (first, fewer),
                Prefers::Fullest => (i64::from((!after).count_ones()), fewer),
                Prefers::LeastFragmentation => {
                    (fragmentation(gpu.model, after) - fragmentation(gpu.model, before), 0)
                }
            };
            if best.is_none_or(|(other, _)| key < other) {
                best = Some((key, MigSpec { gpu: index, profile: profile.id, start }));
            }
        }
    }
    let ((key, _), spec) = best?;
    let key = if matches!(prefers, Prefers::First | Prefers::MostPlacements) { 0 } else { key };
    Some((key, Grant::Mig(vec![spec])))
}

/// Whole GPUs fragment nothing by MFI's score, so that its first node with room is taken.
fn whole(node: &Node, ask: &Ask, n: usize, prefers: Prefers) -> Option<(i64, Grant)> {
    let free = free_gpus(node, ask);
    if n == 0 || free.len() < n {
        return None;
    }
    let key = if prefers == Prefers::Fullest { at_most(free.len()) } else { 0 };
    Some((key, Grant::Whole(free[..n].to_vec())))
}

/// Lists GPUs without a job that a job may have whole.
pub(crate) fn free_gpus(node: &Node, ask: &Ask) -> Vec<GpuIndex> {
    let all = (0_u16..).zip(&node.gpus);
    all.filter(|(_, gpu)| gpu.is_ever_whole() && !gpu.has_job())
        .map(|(i, _)| GpuIndex(i))
        .filter(|i| ask.permits(*i))
        .collect()
}

fn at_most(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
