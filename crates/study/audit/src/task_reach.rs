//! On which GPUs, in addition to that of its seats, a job's tasks may run.

use geometry::{GpuIndex, JobId};
use node_state::{Ask, Gpu, GpuState, MigPolicy, Node, Policy, Purpose};
use protocol::{PoolSeats, ShareOn};

use crate::finding::{Finding, finding};
use crate::state::cut;
use crate::task_devices::{claimed, joinable, needed, seats_of, users};
use crate::whole_rules::offered;

/// The devices on one GPU, and those further ones that the job may use: GPUs without MIG for seats on one without MIG.
pub(crate) fn with_reach(node: &Node, ask: &Ask, policy: &Policy, own: Vec<PoolSeats>) -> Vec<PoolSeats> {
    let most = policy.tasks.map_or(1, |pool| pool.gpus_per_job) as usize;
    let [PoolSeats { on: home @ ShareOn::Gpu(at), .. }] = own[..] else { return own };
    let mut gpus = vec![home];
    let others = || (0_u16..).take(node.gpus.len()).map(GpuIndex).filter(|gpu| *gpu != at);
    // Those of the pool, the emptiest first.
    let mut pooled: Vec<(u64, ShareOn)> = others()
        .filter(|gpu| offered(node, ask, *gpu) && has_shards(node, ask, policy, *gpu))
        .flat_map(|gpu| joinable(node, ask, policy, gpu))
        .filter(|(on, ..)| matches!(on, ShareOn::Gpu(_)))
        .map(|(on, of, taken)| (u64::from(taken) * 1_000_000_000_000 / u64::from(of), on))
        .collect();
    pooled.sort_unstable();
    gpus.extend(pooled.into_iter().map(|(_, on)| on));
    for gpu in others().filter(|gpu| could_open(node, ask, policy, *gpu)) {
        let with: Vec<ShareOn> = gpus.iter().copied().take(most).chain([ShareOn::Gpu(gpu)]).collect();
        if keeps_enough(node, &with) {
            gpus.push(ShareOn::Gpu(gpu));
        }
    }
    gpus.truncate(most);
    let mut all = own;
    all.extend(gpus.into_iter().skip(1).map(|on| PoolSeats { on, seats: 0 }));
    all.sort_unstable_by_key(|s| s.on.gpu());
    all
}

/// A free GPU on which the job's tasks may run.
fn could_open(node: &Node, ask: &Ask, policy: &Policy, at: GpuIndex) -> bool {
    let gpu = &node.gpus[usize::from(at.0)];
    offered(node, ask, at)
        && matches!(gpu.purpose, Purpose::Any | Purpose::Shares)
        && gpu.state == GpuState::Free
        && gpu.policy != MigPolicy::On
        && !claimed(node, ShareOn::Gpu(at))
        && gpu.model.usable_mib() >= needed(ask, policy)
        && has_shards(node, ask, policy, at)
}

/// Slurm counts every seat of a job on each GPU that it may use. There must be enough of them, and one for each seat that is free.
fn has_shards(node: &Node, ask: &Ask, policy: &Policy, at: GpuIndex) -> bool {
    let gpu = &node.gpus[usize::from(at.0)];
    let taken: u32 = users(gpu, ShareOn::Gpu(at)).unwrap_or_default().iter().map(|s| s.seats).sum();
    let free = seats_of(gpu, policy, ShareOn::Gpu(at)).saturating_sub(taken);
    counted(node, gpu) + free + ask.request.seats <= gpu.model.shards()
}

/// Shards that Slurm counts on a GPU without MIG for the jobs of the pool.
fn counted(node: &Node, gpu: &Gpu) -> u32 {
    let on = |gpu: &Gpu, job: JobId| match &gpu.state {
        GpuState::Tasks(seats) => seats.iter().filter(|s| s.job == job).map(|s| s.seats).sum(),
        _ => 0,
    };
    let GpuState::Tasks(here) = &gpu.state else { return 0 };
    here.iter().map(|seat| node.gpus.iter().map(|gpu| on(gpu, seat.job)).sum::<u32>()).sum()
}

/// Finds the GPUs on which Slurm would count more shards for the jobs of the pool than they have: none after decisions alone.
#[must_use]
pub fn audit_shards(node: &Node) -> Vec<Finding> {
    let all =
        node.gpus.iter().zip(0_u16..).map(|(gpu, i)| (GpuIndex(i), counted(node, gpu), gpu.model.shards()));
    let over = all.filter(|(_, counted, of)| counted > of);
    over.map(|(at, counted, of)| finding(at, format!("{counted} shards counted of {of}"))).collect()
}

/// True if enough of the GPUs that may be had whole and in parts stay uncut when these get seats.
fn keeps_enough(node: &Node, with: &[ShareOn]) -> bool {
    let flexible =
        node.gpus.iter().zip(0_u16..).filter(|(gpu, _)| {
            gpu.purpose == Purpose::Any && gpu.policy != MigPolicy::On && !cut(&gpu.state)
        });
    let (newly, uncut): (Vec<_>, Vec<_>) =
        flexible.partition(|(_, i)| with.contains(&ShareOn::Gpu(GpuIndex(*i))));
    newly.is_empty() || uncut.len() >= node.keep_uncut
}
