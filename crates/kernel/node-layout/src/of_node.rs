//! Writes a node's state as its layout line, and takes idle instances back from one.

use crate::line::{
    ComputeLayout, GpuLayout, HolderLayout, InstanceLayout, Layout, MAX_SHARES, Seats, ShareLayout, Shares,
};
use geometry::{GpuIndex, Slice, coexist};
use node_state::{ComputeHold, Gpu, GpuState, Holder, Instance, MigPolicy, Node, Purpose, Seat, Share};
use protocol::{MigSpec, ShareOn};

/// The layout of a node: its state without users' ids.
#[must_use]
pub fn layout_of(node: &Node) -> Layout {
    let gpus = node.gpus.iter().zip(0_u16..).map(|(gpu, i)| gpu_layout(node, gpu, GpuIndex(i)));
    Layout { gpus: gpus.collect(), ..Layout::default() }
}

fn gpu_layout(node: &Node, gpu: &Gpu, index: GpuIndex) -> GpuLayout {
    let name =
        |i: &Instance| gpu.profile_of(i).map_or_else(|| format!("id{}", i.profile), |p| p.name.clone());
    match &gpu.state {
        GpuState::Free if gpu.purpose == Purpose::Slurm => GpuLayout::Slurm,
        GpuState::Free => GpuLayout::Free,
        GpuState::Whole(job) => GpuLayout::Whole(*job),
        GpuState::Mps(shares) => GpuLayout::Mps(share_layout(shares)),
        GpuState::Tasks(seats) => GpuLayout::Tasks(seat_layout(node, ShareOn::Gpu(index), seats)),
        GpuState::Mig(instances) => {
            let one = |i: &Instance| InstanceLayout {
                profile: name(i),
                start: i.start,
                holder: match &i.holder {
                    Holder::Isolated(job) => HolderLayout::Job(*job),
                    Holder::Shared(shares) => HolderLayout::Mps(share_layout(shares)),
                    Holder::Compute(holds) => HolderLayout::Compute(holds.iter().map(compute).collect()),
                    Holder::Pool(seats) => {
                        let spec = MigSpec { gpu: index, profile: i.profile, start: i.start };
                        HolderLayout::Tasks(seat_layout(node, ShareOn::Instance(spec), seats))
                    }
                    Holder::Idle => HolderLayout::Idle,
                },
            };
            GpuLayout::Mig(instances.iter().map(one).collect())
        }
    }
}

fn compute(hold: &ComputeHold) -> ComputeLayout {
    ComputeLayout { part: hold.part, job: hold.job, mem_mib: hold.mem_mib }
}

fn share_layout(shares: &[Share]) -> Shares {
    let one = |s: &Share| ShareLayout { job: s.job, mem_mib: s.mem_mib, threads: s.threads };
    let (listed, more) = shares.split_at(shares.len().min(MAX_SHARES));
    let rest = (more.iter().map(|s| s.mem_mib).sum(), more.iter().map(|s| u64::from(s.threads)).sum());
    Shares { listed: listed.iter().map(one).collect(), more: more.len(), rest }
}

fn seat_layout(node: &Node, on: ShareOn, seats: &[Seat]) -> Seats {
    Seats {
        listed: seats.iter().take(MAX_SHARES).map(|s| (s.job, s.seats)).collect(),
        more: seats.len().saturating_sub(MAX_SHARES),
        claimed: node.claim_on(on).map(|claim| claim.job),
    }
}

/// Adds the idle instances that a layout names, so that slurmctld still knows them after a restart. An instance that
/// conflicts with what is already here is left out; nothing held changes. Returns how many were added.
pub fn remember_idle(node: &mut Node, layout: &Layout) -> usize {
    layout.idle().filter(|(gpu, profile, start)| add_idle(node, *gpu, profile, *start)).count()
}

/// Takes the idle instances away that a reboot of the node has destroyed, and returns how many. What jobs hold stays, and
/// so does what the site makes itself at each boot, on static GPUs.
pub fn forget_idle(node: &mut Node) -> usize {
    let mut gone = 0;
    for gpu in node.gpus.iter_mut().filter(|g| g.purpose != Purpose::Static) {
        let GpuState::Mig(instances) = &mut gpu.state else { continue };
        let before = instances.len();
        instances.retain(|i| i.holder != Holder::Idle);
        gone += before - instances.len();
        if instances.is_empty() && before > 0 {
            gpu.state = GpuState::Free;
        }
    }
    gone
}

fn add_idle(node: &mut Node, gpu: GpuIndex, profile: &str, start: Slice) -> bool {
    let may_have = |g: &&mut Gpu| g.policy != MigPolicy::Off && g.purpose != Purpose::Static;
    let Some(gpu) = node.gpus.get_mut(usize::from(gpu.0)).filter(may_have) else { return false };
    let model = gpu.model;
    let Some(profile) = model.profile(profile).filter(|p| p.starts.contains(&start)) else {
        return false;
    };
    if gpu.state == GpuState::Free {
        gpu.state = GpuState::Mig(Vec::new());
    }
    let GpuState::Mig(instances) = &mut gpu.state else { return false };
    let same = instances.iter().filter(|i| i.profile == profile.id).count();
    let fits = instances.iter().filter_map(|i| model.profile_by_id(i.profile).map(|p| (p, i.start))).all(
        |(other, at)| {
            other.at(at).mask() & profile.at(start).mask() == 0
                && (other.id == profile.id || coexist(other, profile))
        },
    );
    let compute =
        instances.iter().filter_map(|i| model.profile_by_id(i.profile)).map(|p| u32::from(p.compute_slices));
    let compute = compute.sum::<u32>() + u32::from(profile.compute_slices);
    if !fits || same >= profile.max_instances as usize || compute > u32::from(model.compute_slices) {
        return false;
    }
    instances.push(Instance { profile: profile.id, start, holder: Holder::Idle });
    instances.sort_by_key(|i| i.start);
    true
}
