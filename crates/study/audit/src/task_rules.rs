//! Whether a job of GPU tasks may have these seats.

use geometry::{GpuIndex, Model, Profile};
use node_state::{Ask, Gpu, GpuState, Holder, MigPolicy, Node, Policy, Purpose, Seat};
use protocol::{Isolation, MigSpec, PoolSeats, ShareOn, TaskDevices, TaskGrant};
use topology::GpuSet;

use crate::every_place::every_place;
use crate::finding::{Finding, finding};
use crate::places::check_places;
use crate::whole_rules::{check_whole, offered};

/// What a device offers to GPU tasks.
struct Offer {
    seats: u32,
    memory_mib: u64,
}

/// `None` for a device that does not exist.
fn offer(gpu: &Gpu, policy: &Policy, on: ShareOn) -> Option<Offer> {
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
fn needed(ask: &Ask, policy: &Policy) -> u64 {
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

/// Whether an isolated job has claimed some of a device.
fn claimed(node: &Node, on: ShareOn) -> bool {
    let Some(gpu) = node.gpus.get(usize::from(on.gpu().0)) else { return false };
    let own = units(gpu, on);
    let here = node.claims.iter().filter(|c| c.on.gpu() == on.gpu());
    here.flat_map(|c| units(gpu, c.on)).any(|unit| own.contains(&unit))
}

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

fn check_pool(node: &Node, ask: &Ask, policy: &Policy, pool: &[PoolSeats], out: &mut Vec<Finding>) {
    let Some(first) = pool.first() else { return out.push(finding(None, "no device")) };
    let at = first.on.gpu();
    let gpu = &node.gpus[usize::from(at.0)];
    if pool.iter().any(|s| s.on.gpu() != at) {
        out.push(finding(at, "devices of several GPUs"));
    }
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
        all.push(grant(TaskDevices::Pool(deal(&joinable, request.seats))));
        for on in devices(node, at).into_iter().filter(|on| users(gpu, *on).is_none()) {
            let Some(offer) = offer(gpu, policy, on) else { continue };
            let mut with = joinable.clone();
            with.push((on, offer.seats, 0));
            all.push(grant(TaskDevices::Pool(deal(&with, request.seats))));
        }
    }
    all.retain(|grant| grant.devices().next().is_some());
    all
}
