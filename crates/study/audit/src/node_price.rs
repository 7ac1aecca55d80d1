//! Costs of a grant to everybody else in the cluster, counted from the node's states before and after it.

use geometry::GpuIndex;
use node_state::{Ask, Fill, Gpu, GpuState, Holder, Instance, MigPolicy, Node, Policy, Purpose};
use protocol::{Bandwidth, Grant, TaskDevices, TaskGrant};

use crate::price::placeable;
use crate::sets::predicted;
use crate::share_rules::sharers;
use crate::state::{held_units, units_of, unused};

/// Parts of a GPU in [`NodePrice`]: a multiple of every model's number of placement units.
const PARTS: u64 = 5040;

/// Cost of a grant on a node to everybody else; less is better, earlier fields first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodePrice {
    /// For a set whose job is sensitive to bandwidth: negative steps of 10 % above 1 GB/s; the largest if nothing is predicted.
    pub(crate) slower: i64,
    /// The device's threads are promised twice.
    crowded: bool,
    /// 5040ths of GPUs that other jobs can no longer have.
    taken: u64,
    /// GPUs of the node with jobs, where the site spreads jobs; else 0.
    busy: u64,
    /// No GPU of the node had a job, and some are left.
    opens_node: bool,
    /// GPUs opened, placements lost, GPUs switched to MIG, instances created, idle ones destroyed.
    inside: [u64; 5],
    /// GPUs of the node that had no job.
    free: u64,
}

/// Returns what a legal grant costs; `None` for a grant that does not fit the node's state.
#[must_use]
pub fn node_price(node: &Node, ask: &Ask, policy: &Policy, grant: &Grant, fill: Fill) -> Option<NodePrice> {
    let mut after = node.clone();
    after.apply(ask.job, ask.uid, grant).ok()?;
    let set = set_of(grant);
    let busy = node.gpus.iter().filter(|gpu| !unused(&gpu.state)).count() as u64;
    let free = node.gpus.len() as u64 - busy;
    let opened = node.gpus.iter().zip(&after.gpus).filter(|(was, is)| opens(was, is)).count() as u64;
    Some(NodePrice {
        slower: slower(node, ask, policy, set),
        crowded: crowds(node, policy, grant),
        taken: sum(&after, taken).saturating_sub(sum(node, taken)),
        busy: if fill == Fill::Spread { busy } else { 0 },
        opens_node: busy == 0 && set.is_none_or(|set| set.len() < node.gpus.len()),
        inside: match set {
            Some(set) => [set.len() as u64, 0, 0, 0, 0],
            None => [
                opened,
                sum(node, placements).saturating_sub(sum(&after, placements)),
                pairs(node, &after, |was, is| {
                    u64::from(is_mig(is) && !is_mig(was) && was.policy == MigPolicy::Dynamic)
                }),
                pairs(node, &after, |was, is| created(was, is).len() as u64),
                pairs(node, &after, destroyed),
            ],
        },
        free,
    })
}

/// The order of a set of GPUs that the job gets whole.
pub(crate) fn set_of(grant: &Grant) -> Option<&[GpuIndex]> {
    match grant {
        Grant::Whole(gpus) | Grant::Tasks(TaskGrant { on: TaskDevices::Own { gpus, .. }, .. }) => Some(gpus),
        _ => None,
    }
}

fn sum(node: &Node, of: impl Fn(&Gpu) -> u64) -> u64 {
    node.gpus.iter().map(of).sum()
}

fn pairs(node: &Node, after: &Node, of: impl Fn(&Gpu, &Gpu) -> u64) -> u64 {
    node.gpus.iter().zip(&after.gpus).map(|(was, is)| of(was, is)).sum()
}

/// The site's own instances open no GPU: nobody can have it whole.
fn opens(was: &Gpu, is: &Gpu) -> bool {
    unused(&was.state) && !unused(&is.state) && was.purpose != Purpose::Static
}

fn is_mig(gpu: &Gpu) -> bool {
    matches!(gpu.state, GpuState::Mig(_))
}

/// Instances of a GPU; none without MIG.
fn instances(gpu: &Gpu) -> &[Instance] {
    match &gpu.state {
        GpuState::Mig(instances) => instances,
        _ => &[],
    }
}

/// Returns the units of the instances that a GPU has in `is` and not in `was`, of each one.
fn created(was: &Gpu, is: &Gpu) -> Vec<Vec<u32>> {
    let there = |i: &&Instance| instances(was).iter().any(|w| (w.profile, w.start) == (i.profile, i.start));
    instances(is).iter().filter(|i| !there(i)).map(|i| units(is, i)).collect()
}

fn units(gpu: &Gpu, instance: &Instance) -> Vec<u32> {
    let profile = gpu.model.profiles.iter().find(|p| p.id == instance.profile);
    profile.map(|p| units_of(p, instance.start)).unwrap_or_default()
}

/// Counts the idle instances on whose units something else is now. Those that go for their engines are not counted, as in the
/// rule inside nodes.
fn destroyed(was: &Gpu, is: &Gpu) -> u64 {
    let new: Vec<u32> = created(was, is).concat();
    let idle = instances(was).iter().filter(|i| i.holder == Holder::Idle);
    idle.filter(|i| units(was, i).iter().any(|unit| new.contains(unit))).count() as u64
}

/// 5040ths of a GPU that jobs have.
fn taken(gpu: &Gpu) -> u64 {
    match &gpu.state {
        GpuState::Free => 0,
        GpuState::Whole(_) | GpuState::Mps(_) | GpuState::Tasks(_) => PARTS,
        GpuState::Mig(instances) => {
            let held = instances.iter().filter(|i| i.holder != Holder::Idle);
            let sizes =
                held.filter_map(|i| gpu.model.profiles.iter().find(|p| p.id == i.profile)).map(|p| p.size);
            sizes.map(|size| u64::from(size) * PARTS / u64::from(gpu.model.placement_units)).sum()
        }
    }
}

/// Instances that could be placed on a GPU.
fn placements(gpu: &Gpu) -> u64 {
    match gpu.state {
        GpuState::Whole(_) | GpuState::Mps(_) | GpuState::Tasks(_) => 0,
        _ if gpu.policy == MigPolicy::Off => 0,
        GpuState::Free | GpuState::Mig(_) => placeable(gpu, &held_units(gpu), &[]),
    }
}

/// Tells whether a share joins others on a device that has not enough threads for all of them.
fn crowds(node: &Node, policy: &Policy, grant: &Grant) -> bool {
    let Grant::Mps { on, threads, .. } = grant else { return false };
    let promised = sharers(node, *on).map(|all| all.iter().map(|s| u32::from(s.threads)).sum::<u32>());
    promised.is_some_and(|promised| promised + u32::from(*threads) > policy.max_threads)
}

/// Steps of 10 % in the bandwidth of a sensitive job's set.
fn slower(node: &Node, ask: &Ask, policy: &Policy, set: Option<&[GpuIndex]>) -> i64 {
    let sensitive = ask.request.bandwidth.unwrap_or(policy.sets.bandwidth) == Bandwidth::Sensitive;
    let Some(order) = set.filter(|_| sensitive) else { return i64::MAX };
    let Some(gbps) = predicted(node, ask, policy, order).filter(|gbps| *gbps > 0.0) else { return i64::MAX };
    let (mut steps, mut next) = (0, 1.1);
    while next <= gbps {
        (steps, next) = (steps + 1, next * 1.1);
    }
    while next / 1.1 > gbps {
        (steps, next) = (steps - 1, next / 1.1);
    }
    -steps
}
