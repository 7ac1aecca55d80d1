//! Checks that a request may be given a grant on a node.

use crate::compute_rules::{check_compute, every_compute};
use crate::finding::{Finding, finding};
use crate::kinds::{kind_of, kinds};
use crate::places::check_places;
use crate::share_rules::check_share;
use crate::state::cut;
use crate::task_rules::check_tasks;
use crate::whole_rules::{check_whole, offered};
use geometry::{GpuIndex, Model, Profile};
use node_state::{Ask, Kind, MigPolicy, Node, Policy, Purpose, Spread};
use protocol::moldable::PlannedStart;
use protocol::{Grant, Isolation, MigSpec, TaskDevices, TaskGrant};

/// Why the request may not be given this grant on the node; empty: it may. Whether the grant is the best is not checked.
#[must_use]
pub fn legal(node: &Node, ask: &Ask, policy: &Policy, grant: &Grant) -> Vec<Finding> {
    let mut out = Vec::new();
    let kind = kind_of(grant);
    if !kinds(ask, policy).contains(&kind) {
        out.push(finding(None, format!("{kind} was not asked for")));
    }
    for gpu in grant.gpus() {
        if usize::from(gpu.0) >= node.gpus.len() {
            return vec![finding(gpu, "does not exist")];
        }
        if !offered(node, ask, gpu) {
            out.push(finding(gpu, "not offered"));
        }
    }
    match grant {
        Grant::Mig(specs) => check_instances(node, ask, policy, specs, &mut out),
        Grant::Compute { within, part, mem_mib } => {
            check_compute(node, ask, policy, (*within, *part), *mem_mib, &mut out);
        }
        Grant::Mps { on, mem_mib, threads } => {
            check_share(node, ask, policy, *on, (*mem_mib, *threads), &mut out);
        }
        Grant::Tasks(tasks) => check_tasks(node, ask, policy, tasks, &mut out),
        Grant::Whole(gpus) => check_whole(node, ask, gpus, &mut out),
    }
    let own = matches!(grant, Grant::Tasks(TaskGrant { on: TaskDevices::Own { .. }, .. }));
    if kind != Kind::Whole && !own {
        check_uncut(node, grant, &mut out);
    }
    out
}

/// Checks that as many of the GPUs that may be had whole and in parts as the site says stay without instances and shares; those that
/// have some already may get more.
fn check_uncut(node: &Node, grant: &Grant, out: &mut Vec<Finding>) {
    let (mut uncut, mut newly) = (0, 0);
    for (gpu, i) in node.gpus.iter().zip(0_u16..) {
        if gpu.purpose == Purpose::Any && gpu.policy != MigPolicy::On && !cut(&gpu.state) {
            if grant.gpus().contains(&GpuIndex(i)) { newly += 1 } else { uncut += 1 }
        }
    }
    if newly > 0 && uncut < node.keep_uncut {
        out.push(finding(
            None,
            format!("{} uncut, {} to be kept", geometry::counted(uncut, "GPU"), node.keep_uncut),
        ));
    }
}

/// Memory that an instance for this request must have, MiB.
fn instance_memory(ask: &Ask, policy: &Policy) -> u64 {
    let named = matches!(ask.request.isolation, Isolation::Mig(Some(_)));
    let default = if named || !ask.request.times.is_empty() { None } else { policy.default_mem_mib };
    ask.request.mem_mib.or(default).unwrap_or(0)
}

fn satisfies(model: &Model, profile: &Profile, ask: &Ask, policy: &Policy) -> bool {
    let named = match &ask.request.isolation {
        Isolation::Mig(Some(name)) => profile.name == *name,
        _ if !ask.request.times.is_empty() => {
            // The size with the least work of those that will do.
            let work = |p: &Profile| {
                let time = ask.request.times.iter().find(|t| t.slices == p.compute_slices)?;
                let will_do = plain(p) && suffices(model, p, ask, policy) && leanest(model, p);
                will_do.then_some((time.millis * u64::from(time.slices), p.compute_slices))
            };
            let all = model.profiles.iter().filter_map(work);
            work(profile).is_some() && all.min() == work(profile)
        }
        _ => plain(profile),
    };
    named && suffices(model, profile, ask, policy)
}

fn plain(profile: &Profile) -> bool {
    !profile.name.contains('+') && !profile.name.contains('-')
}

fn suffices(model: &Model, profile: &Profile, ask: &Ask, policy: &Policy) -> bool {
    let all_sm: u32 = model.profiles.iter().map(|p| p.sm).max().unwrap_or(0);
    let sm_ok = ask.request.threads.is_none_or(|t| profile.sm * 100 + 2 * all_sm >= u32::from(t) * all_sm);
    sm_ok && profile.memory_mib >= instance_memory(ask, policy) && is_within_limits(profile, policy)
}

/// The numbers of a profile's name count: 2 compute slices and 10 GB of `2g.10gb`.
fn is_within_limits(profile: &Profile, policy: &Policy) -> bool {
    let gigabytes =
        profile.name.split_once('.').and_then(|(_, rest)| rest.split_once("gb")?.0.parse::<u64>().ok());
    let limit = &policy.instances;
    let is_named = limit.only.iter().all(|only| only.contains(&profile.name));
    let slices = profile.name.split_once('g').and_then(|(slices, _)| slices.parse::<u64>().ok());
    is_named
        && limit.most_slices.zip(slices).is_none_or(|(most, slices)| slices <= most)
        && limit.most_mib.zip(gigabytes).is_none_or(|(most, gigabytes)| {
            geometry::size::gigabytes_as_mib(u32::try_from(gigabytes).unwrap_or(u32::MAX)) <= most
        })
}

/// True if no plain profile has as many compute slices in fewer memory slices.
fn leanest(model: &Model, profile: &Profile) -> bool {
    let same = model.profiles.iter().filter(|p| plain(p) && p.compute_slices == profile.compute_slices);
    same.map(|p| p.size).min() == Some(profile.size)
}

/// The grants, legal or not, that put the request's one instance where its plan puts it. The profile is the first by
/// units, then compute slices, that satisfies the request; of a compute instance, all that its GPU instance there has.
pub(super) fn as_planned(node: &Node, ask: &Ask, policy: &Policy) -> Vec<Grant> {
    let Some(place) = ask.request.place.filter(|_| ask.request.instances <= 1) else { return Vec::new() };
    let there = |g: &Grant| g.instances().iter().all(|i| (i.gpu, i.start) == (place.gpu, place.start));
    let compute: Vec<Grant> = every_compute(node, ask).into_iter().filter(there).collect();
    if compute.is_empty() {
        whole_as_planned(node, ask, policy, place).into_iter().collect()
    } else {
        compute
    }
}

fn whole_as_planned(node: &Node, ask: &Ask, policy: &Policy, place: PlannedStart) -> Option<Grant> {
    let model = node.gpus.get(usize::from(place.gpu.0))?.model;
    let will_do = model.profiles.iter().filter(|p| satisfies(model, p, ask, policy));
    let profile = will_do.min_by_key(|p| (p.size, p.compute_slices, p.id))?;
    Some(Grant::Mig(vec![MigSpec { gpu: place.gpu, profile: profile.id, start: place.start }]))
}

fn check_spread(spread: Spread, specs: &[MigSpec], out: &mut Vec<Finding>) {
    let on = |gpu| specs.iter().filter(|s| s.gpu == gpu).count();
    let (most, same) = match spread {
        Spread::OneGpu => (usize::MAX, specs.len()),
        Spread::Alike { most } => (most as usize, specs.first().map_or(0, |s| on(s.gpu))),
        Spread::Any => return,
    };
    if specs.iter().any(|s| on(s.gpu) != same || same > most) {
        out.push(finding(None, "instances on GPUs where they may not all be"));
    }
}

fn check_instances(node: &Node, ask: &Ask, policy: &Policy, specs: &[MigSpec], out: &mut Vec<Finding>) {
    if specs.len() != ask.request.instances.max(1) as usize {
        out.push(finding(None, "another number of instances than asked"));
    }
    if ask.request.isolation == Isolation::Auto && ask.request.gpus.is_some() {
        out.push(finding(None, "instances for a request that counts GPUs"));
    }
    check_spread(ask.spread, specs, out);
    for (i, gpu) in node.gpus.iter().enumerate() {
        let here: Vec<&MigSpec> = specs.iter().filter(|s| usize::from(s.gpu.0) == i).collect();
        if !here.is_empty() {
            check_places(gpu, &here, out);
        }
        for spec in here {
            let profile = gpu.model.profiles.iter().find(|p| p.id == spec.profile);
            if !profile.is_some_and(|p| satisfies(gpu.model, p, ask, policy)) {
                out.push(finding(spec.gpu, format!("profile {} is not what was asked for", spec.profile)));
            }
        }
    }
}
