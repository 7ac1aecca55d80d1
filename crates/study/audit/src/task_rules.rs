//! Checks that a job of GPU tasks may have these seats.

use geometry::{GpuIndex, Model, Profile};
use node_state::{Ask, Gpu, GpuState, MigPolicy, Node, Policy, Purpose};
use protocol::{Isolation, MigSpec, PoolSeats, ShareOn, TaskDevices, TaskGrant};
use topology::GpuSet;

use crate::finding::{Finding, finding};
use crate::places::check_places;
use crate::task_devices::{claimed, devices, joinable, needed, offer, users};
use crate::task_reach::with_reach;
use crate::whole_rules::{check_whole, offered};

/// The request as one for whole GPUs: with the memory that its processes need, on GPUs with enough seats.
pub(crate) fn as_whole(node: &Node, ask: &Ask, policy: &Policy) -> Ask {
    let each = ask.request.seats.div_ceil(ask.request.gpus.unwrap_or(1).max(1));
    let enough = |at: &GpuIndex| {
        let gpu = &node.gpus[usize::from(at.0)];
        offered(node, ask, *at) && offer(gpu, policy, ShareOn::Gpu(*at)).is_some_and(|o| o.seats >= each)
    };
    let all = (0_u16..).take(node.gpus.len()).map(GpuIndex);
    let mut whole = ask.clone();
    whole.allowed = Some(all.filter(enough).collect::<GpuSet>());
    whole.request.mem_mib = Some(needed(ask, policy));
    whole
}

pub(crate) fn check_tasks(
    node: &Node,
    ask: &Ask,
    policy: &Policy,
    tasks: &TaskGrant,
    out: &mut Vec<Finding>,
) {
    let request = &ask.request;
    if policy.tasks.is_none() {
        out.push(finding(None, "the site has no pool"));
    }
    if request.instances > 1 || request.threads.is_some() {
        out.push(finding(None, "seats for a request that is not for any"));
    }
    if tasks.mem_mib != request.mem_mib {
        out.push(finding(None, "another memory than asked"));
    }
    if tasks.probes != (request.isolation == Isolation::Tasks { probes: true }) {
        out.push(finding(None, "probes otherwise than asked"));
    }
    if tasks.seats() != request.seats {
        out.push(finding(
            None,
            format!(
                "{} for {}",
                geometry::counted(tasks.seats(), "seat"),
                geometry::counted(request.seats, "task")
            ),
        ));
    }
    match (&tasks.on, request.gpus) {
        (TaskDevices::Own { gpus, .. }, Some(_)) if request.isolation != Isolation::Auto => {
            check_whole(node, &as_whole(node, ask, policy), gpus, out);
        }
        (TaskDevices::Pool(pool), None) => check_pool(node, ask, policy, pool, out),
        _ => out.push(finding(None, "whole GPUs for who counts none, or the other way round")),
    }
}

fn check_pool(node: &Node, ask: &Ask, policy: &Policy, all: &[PoolSeats], out: &mut Vec<Finding>) {
    // The GPU with the seats.
    let Some(first) = all.iter().find(|s| s.seats > 0) else { return out.push(finding(None, "no seat")) };
    let at = first.on.gpu();
    let gpu = &node.gpus[usize::from(at.0)];
    let pool: Vec<PoolSeats> = all.iter().copied().filter(|s| s.on.gpu() == at).collect();
    if with_reach(node, ask, policy, pool.clone()) != all {
        out.push(finding(at, "other further GPUs than the job may use"));
    }
    let pool = &pool[..];
    if !pool.is_sorted_by_key(|s| s.on.start()) || (1..pool.len()).any(|i| pool[i].on == pool[i - 1].on) {
        out.push(finding(at, "devices out of order"));
    }
    let joinable = joinable(node, ask, policy, at);
    for (on, ..) in joinable.iter().filter(|(on, ..)| !pool.iter().any(|s| s.on == *on)) {
        out.push(finding(at, format!("{on:?} could be used as well")));
    }
    let opened: Vec<ShareOn> =
        pool.iter().map(|s| s.on).filter(|on| !joinable.iter().any(|(known, ..)| known == on)).collect();
    let free: u32 = joinable.iter().map(|(_, of, taken)| of - taken).sum();
    if opened.len() > 1 || (!opened.is_empty() && free >= ask.request.seats) {
        out.push(finding(
            at,
            format!(
                "{} opened, {} free",
                geometry::counted(opened.len(), "device"),
                geometry::counted(free, "seat")
            ),
        ));
    }
    opened.iter().for_each(|on| check_opened(node, ask, policy, *on, free, out));
    let seated: Vec<(u32, u32, u32)> = pool
        .iter()
        .filter_map(|s| {
            let taken = users(gpu, s.on).map_or(0, |users| users.iter().map(|u| u.seats).sum());
            Some((s.seats, taken, offer(gpu, policy, s.on)?.seats))
        })
        .collect();
    for (own, taken, of) in &seated {
        if own + taken > *of {
            out.push(finding(at, format!("{} seats of {of}", own + taken)));
        }
        // A seat of this device could go to one that is emptier.
        let emptier = |(n, t, o): &(u32, u32, u32)| n + t < *o && (t + n) * of < (taken + own - 1) * o;
        if *own > 0 && seated.iter().any(emptier) {
            out.push(finding(at, "seats dealt unevenly"));
        }
    }
}

fn check_opened(node: &Node, ask: &Ask, policy: &Policy, on: ShareOn, free: u32, out: &mut Vec<Finding>) {
    let gpu = &node.gpus[usize::from(on.gpu().0)];
    let needed = needed(ask, policy);
    let Some(offer) = offer(gpu, policy, on) else { return out.push(finding(on.gpu(), "no such device")) };
    if offer.memory_mib < needed || offer.seats + free < ask.request.seats {
        out.push(finding(on.gpu(), "a device that is too small"));
    }
    if claimed(node, on) {
        out.push(finding(on.gpu(), "a device that is claimed"));
    }
    match on {
        ShareOn::Gpu(at) => {
            if matches!(gpu.purpose, Purpose::Whole | Purpose::Slurm) {
                out.push(finding(at, format!("seats where the GPU is {}", gpu.purpose.words())));
            }
            if gpu.policy == MigPolicy::On || gpu.state != GpuState::Free {
                out.push(finding(at, "not free for seats"));
            }
        }
        ShareOn::Instance(spec) => {
            if gpu.policy == MigPolicy::Dynamic && gpu.state == GpuState::Free {
                out.push(finding(spec.gpu, "MIG mode would be switched on for seats"));
            }
            check_places(gpu, &[&spec], out);
            let exists = matches!(&gpu.state, GpuState::Mig(instances) if instances.iter().any(|i| {
                i.profile == spec.profile && i.start == spec.start
            }));
            let smallest = smallest(gpu.model, gpu, policy, needed, ask.request.seats.saturating_sub(free));
            let base = gpu.model.profiles.iter().any(|p| p.id == spec.profile && plain(p));
            if !base || (!exists && smallest != Some(spec.profile)) {
                out.push(finding(spec.gpu, "a new instance that is not the smallest"));
            }
        }
    }
}

fn plain(profile: &Profile) -> bool {
    !profile.name.contains(['+', '-'])
}

/// The smallest profile with this memory and these seats.
fn smallest(
    model: &Model,
    gpu: &Gpu,
    policy: &Policy,
    needed: u64,
    seats: u32,
) -> Option<geometry::ProfileId> {
    let will_do = |p: &&Profile| {
        let spec = MigSpec { gpu: GpuIndex(0), profile: p.id, start: p.starts[0] };
        let offer = offer(gpu, policy, ShareOn::Instance(spec));
        plain(p) && offer.is_some_and(|o| o.memory_mib >= needed && o.seats >= seats)
    };
    model.profiles.iter().filter(will_do).min_by_key(|p| (p.size, p.compute_slices)).map(|p| p.id)
}

/// The seats on these devices, dealt one by one: each to the device that is emptiest by parts.
pub(crate) fn deal(devices: &[(ShareOn, u32, u32)], n: u32) -> Vec<PoolSeats> {
    let mut devices = devices.to_vec();
    devices.sort_by_key(|(on, ..)| on.start());
    let mut given: Vec<PoolSeats> = devices.iter().map(|(on, ..)| PoolSeats { on: *on, seats: 0 }).collect();
    for _ in 0..n {
        let mut emptiest: Option<usize> = None;
        for (i, (_, of, taken)) in devices.iter().enumerate() {
            let (own, of) = (taken + given[i].seats, *of);
            let better = |b: usize| own * devices[b].1 < (devices[b].2 + given[b].seats) * of;
            if own < of && emptiest.is_none_or(better) {
                emptiest = Some(i);
            }
        }
        if let Some(i) = emptiest {
            given[i].seats += 1;
        }
    }
    given
}

/// Seats on every GPU: among the devices of the pool there, and with each device that could be opened beside them.
pub fn seats(node: &Node, ask: &Ask, policy: &Policy) -> Vec<TaskGrant> {
    let request = &ask.request;
    if policy.tasks.is_none() {
        return Vec::new();
    }
    let probes = request.isolation == Isolation::Tasks { probes: true };
    let grant = |on| TaskGrant { on, mem_mib: request.mem_mib, probes };
    let mut all = Vec::new();
    for at in (0_u16..).take(node.gpus.len()).map(GpuIndex) {
        let joinable = joinable(node, ask, policy, at);
        let gpu = &node.gpus[usize::from(at.0)];
        all.push(grant(TaskDevices::Pool(with_reach(node, ask, policy, deal(&joinable, request.seats)))));
        for on in devices(node, at).into_iter().filter(|on| users(gpu, *on).is_none()) {
            let Some(offer) = offer(gpu, policy, on) else { continue };
            let mut with = joinable.clone();
            with.push((on, offer.seats, 0));
            all.push(grant(TaskDevices::Pool(with_reach(node, ask, policy, deal(&with, request.seats)))));
        }
    }
    all.retain(|grant| grant.devices().next().is_some());
    all
}
