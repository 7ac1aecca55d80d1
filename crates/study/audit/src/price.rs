//! Counts the cost of a grant from scratch.

use crate::compute_rules::{holds, lost};
use crate::kinds::kind_of;
use crate::share_rules::sharers;
use crate::state::{held_units, media_clash, units_of, unused};
use crate::task_devices::{seats_of, users};
use geometry::{GpuIndex, Profile, Slice};
use node_state::{Gpu, GpuState, Holder, Kind, MigPolicy, Node, Policy, Purpose};
use protocol::{Grant, MigSpec, PoolSeats, ShareOn, TaskDevices, TaskGrant};

/// How good a legal grant is. Only for comparing grants of one request on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    /// The grant's kind: prices of one kind compare by their scores.
    pub kind: Kind,
    /// Loss of everyone else: whether threads are promised twice, then 2520ths of GPUs, then the rank of the
    /// kind in the site's order.
    takes: (bool, u64, usize),
    /// The kind's own score; less is better.
    score: Vec<u64>,
    /// Breaks ties; less is better.
    places: Vec<(GpuIndex, Slice)>,
}

impl Price {
    /// True if the grant is better than another of the same kind. No grant is better than itself.
    #[must_use]
    pub fn beats_same_kind(&self, other: &Self) -> bool {
        (&self.score, &self.places) < (&other.score, &other.places)
    }

    /// True if `auto` prefers this, the best of its kind, to `other`, the best of another kind.
    #[must_use]
    pub fn beats_other_kind(&self, other: &Self) -> bool {
        self.takes < other.takes
    }
}

/// The price of a legal grant.
#[must_use]
pub fn price(node: &Node, policy: &Policy, grant: &Grant) -> Price {
    let (score, places, taken, crowded) = match grant {
        Grant::Mig(specs) => {
            let mut score =
                vec![size(node, specs, |g, p| g.model.total_memory_mib * u64::from(p.size) / units(g))];
            score.push(size(node, specs, |_, p| u64::from(p.sm)));
            score.extend(losses(node, specs));
            let mut places: Vec<_> = specs.iter().map(|s| (s.gpu, s.start)).collect();
            places.sort_unstable();
            let taken = size(node, specs, |g, p| 2520 * u64::from(p.size) / units(g));
            (score, places, taken, false)
        }
        Grant::Compute { within, part, .. } => {
            let joins = holds(node, *within).is_some();
            let whole = price(node, policy, &Grant::Mig(vec![*within]));
            // Of a GPU instance that is there for others, only the place in it counts.
            let mut score = vec![u64::from(!joins)];
            score.extend(whole.score.iter().map(|s| if joins { 0 } else { *s }));
            score.push(lost(node, *within, *part));
            let places = vec![(within.gpu, within.start), (within.gpu, part.start)];
            (score, places, if joins { 0 } else { whole.takes.1 }, false)
        }
        Grant::Mps { on, threads, .. } => price_share(node, policy, *on, *threads),
        Grant::Tasks(TaskGrant { on: TaskDevices::Pool(pool), .. }) => price_seats(node, policy, pool),
        Grant::Tasks(TaskGrant { on: TaskDevices::Own { gpus, .. }, .. }) => {
            (Vec::new(), Vec::new(), 2520 * gpus.len() as u64, false)
        }
        // Which of several sets is best depends on the job: see `sets`.
        Grant::Whole(gpus) => (Vec::new(), Vec::new(), 2520 * gpus.len() as u64, false),
    };
    let kind = kind_of(grant);
    let rank = policy.auto.iter().position(|k| *k == kind).unwrap_or(usize::MAX);
    Price { kind, takes: (crowded, taken, rank), score, places }
}

type Parts = (Vec<u64>, Vec<(GpuIndex, Slice)>, u64, bool);

fn price_share(node: &Node, policy: &Policy, on: ShareOn, threads: u8) -> Parts {
    let gpu = &node.gpus[usize::from(on.gpu().0)];
    let (start, spec) = match on {
        ShareOn::Gpu(_) => (Slice(0), None),
        ShareOn::Instance(spec) => (spec.start, Some(spec)),
    };
    let places = vec![(on.gpu(), start)];
    if let Some(sharers) = sharers(node, on) {
        let percent: u32 = sharers.iter().map(|s| u32::from(s.threads)).sum();
        let crowded = percent + u32::from(threads) > policy.max_threads;
        return (vec![if crowded { 3 } else { 0 }, u64::from(percent)], places, 0, crowded);
    }
    let Some(spec) = spec else {
        let lost = if gpu.policy == MigPolicy::Off { 0 } else { placeable(gpu, &held_units(gpu), &[]) };
        return (vec![1, 0, 1, lost, 0, 0, 0], places, 2520, false);
    };
    let exists = matches!(&gpu.state, GpuState::Mig(all) if all.iter().any(|i| (i.profile, i.start) == (spec.profile, spec.start)));
    let class = if exists || gpu.policy == MigPolicy::On { 1 } else { 2 };
    let mut score = vec![class, 0];
    score.extend(losses(node, &[spec]));
    let taken = size(node, &[spec], |g, p| 2520 * u64::from(p.size) / units(g));
    (score, places, taken, false)
}

/// Seats among devices of the pool, or with one more that is opened.
fn price_seats(node: &Node, policy: &Policy, all: &[PoolSeats]) -> Parts {
    let gpu = |on: ShareOn| &node.gpus[usize::from(on.gpu().0)];
    // The GPU with the seats says which grant is better, the others what it takes.
    let home = all.iter().find(|s| s.seats > 0).map(|s| s.on.gpu());
    let (pool, further): (Vec<PoolSeats>, Vec<PoolSeats>) =
        all.iter().partition(|s| Some(s.on.gpu()) == home);
    let mut price = price_home(node, policy, &pool);
    price.2 += 2520 * further.iter().filter(|s| users(gpu(s.on), s.on).is_none()).count() as u64;
    price
}

fn price_home(node: &Node, policy: &Policy, pool: &[PoolSeats]) -> Parts {
    let gpu = |on: ShareOn| &node.gpus[usize::from(on.gpu().0)];
    let Some(opened) = pool.iter().map(|s| s.on).find(|on| users(gpu(*on), *on).is_none()) else {
        let Some(at) = pool.first().map(|s| s.on.gpu()) else { return (Vec::new(), Vec::new(), 0, false) };
        let taken =
            |s: &PoolSeats| users(gpu(s.on), s.on).unwrap_or_default().iter().map(|u| u.seats).sum::<u32>();
        let taken: u32 = pool.iter().map(taken).sum();
        let of: u32 = pool.iter().map(|s| seats_of(gpu(s.on), policy, s.on)).sum();
        // Exact for parts of fewer seats than a million.
        let part = u64::from(taken) * 1_000_000_000_000 / u64::from(of.max(1));
        return (vec![0, part], vec![(at, Slice(0))], 0, false);
    };
    let mut price = price_share(node, policy, opened, 0);
    // What one that shares it adds is another matter.
    price.3 = false;
    price
}

fn units(gpu: &Gpu) -> u64 {
    u64::from(gpu.model.placement_units)
}

fn size(node: &Node, specs: &[MigSpec], of: impl Fn(&Gpu, &Profile) -> u64) -> u64 {
    let one = |spec: &MigSpec| {
        let gpu = &node.gpus[usize::from(spec.gpu.0)];
        gpu.model.profiles.iter().find(|p| p.id == spec.profile).map_or(0, |p| of(gpu, p))
    };
    specs.iter().map(one).sum()
}

/// Base placements that fit beside these units, and beside instances of `also`; of a static GPU, instances whose units are
/// not among these.
pub(crate) fn placeable(gpu: &Gpu, taken: &[u32], also: &[&Profile]) -> u64 {
    if let (Purpose::Static, GpuState::Mig(instances)) = (gpu.purpose, &gpu.state) {
        let spared = |i: &&node_state::Instance| {
            let profile = gpu.model.profiles.iter().find(|p| p.id == i.profile);
            profile.is_some_and(|p| units_of(p, i.start).iter().all(|u| !taken.contains(u)))
        };
        return instances.iter().filter(spared).count() as u64;
    }
    let mut names: Vec<&str> = also.iter().map(|p| p.name.as_str()).collect();
    if let GpuState::Mig(instances) = &gpu.state {
        let held = instances.iter().filter(|i| i.holder != Holder::Idle);
        names.extend(
            held.filter_map(|i| gpu.model.profiles.iter().find(|p| p.id == i.profile))
                .map(|p| p.name.as_str()),
        );
    }
    let mut n = 0;
    for profile in gpu.model.profiles.iter().filter(|p| !p.name.contains(['+', '-'])) {
        for start in &profile.starts {
            let free = units_of(profile, *start).iter().all(|u| !taken.contains(u));
            n += u64::from(free && !names.iter().any(|other| media_clash(other, &profile.name)));
        }
    }
    n
}

/// GPUs opened, placements lost, GPUs switched to MIG, instances created, idle ones destroyed.
fn losses(node: &Node, specs: &[MigSpec]) -> [u64; 5] {
    let mut sum = [0; 5];
    for (i, gpu) in node.gpus.iter().enumerate() {
        let here: Vec<&MigSpec> = specs.iter().filter(|s| usize::from(s.gpu.0) == i).collect();
        let known = |s: &&MigSpec| {
            let profile = gpu.model.profiles.iter().find(|p| p.id == s.profile);
            profile.map(|p| (p, s.start))
        };
        let profiles: Vec<(&Profile, Slice)> = here.iter().filter_map(known).collect();
        if profiles.is_empty() {
            continue;
        }
        let before = held_units(gpu);
        let new: Vec<u32> = profiles.iter().flat_map(|(p, start)| units_of(p, *start)).collect();
        let after: Vec<u32> = before.iter().chain(&new).copied().collect();
        let none = Vec::new();
        let idle = match &gpu.state {
            GpuState::Mig(instances) => instances.iter().filter(|i| i.holder == Holder::Idle).collect(),
            _ => none,
        };
        let reused = |s: &&&MigSpec| idle.iter().any(|i| (i.profile, i.start) == (s.profile, s.start));
        let destroyed = idle.iter().filter(|i| {
            let kept = here.iter().any(|s| (i.profile, i.start) == (s.profile, s.start));
            let profile = gpu.model.profiles.iter().find(|p| p.id == i.profile);
            !kept && profile.is_some_and(|p| units_of(p, i.start).iter().any(|u| new.contains(u)))
        });
        let also: Vec<&Profile> = profiles.iter().map(|(p, _)| *p).collect();
        sum[0] += u64::from(unused(&gpu.state) && gpu.purpose != Purpose::Static);
        sum[1] += placeable(gpu, &before, &[]) - placeable(gpu, &after, &also);
        sum[2] += u64::from(gpu.policy == MigPolicy::Dynamic && gpu.state == GpuState::Free);
        sum[3] += (here.len() - here.iter().filter(reused).count()) as u64;
        sum[4] += destroyed.count() as u64;
    }
    sum
}
