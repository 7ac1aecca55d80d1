//! Grants that a decision is compared with.

use geometry::GpuIndex;
use node_state::{Ask, Kind, Node, Policy, Spread};
use protocol::{Grant, Isolation, MigSpec, ShareOn, TaskDevices, TaskGrant};

use crate::compute_rules::every_compute;
use crate::every_place::every_place;
use crate::kinds::kinds;
use crate::legal::legal;
use crate::share_rules::threads;
use crate::task_rules::{as_whole, seats};
use crate::whole_rules::could_be_whole;

/// Grants to compare with, legal or not: every single instance, every device for a share, one set of whole GPUs.
pub(crate) fn alternatives(node: &Node, ask: &Ask, policy: &Policy, chosen: Option<&Grant>) -> Vec<Grant> {
    let kinds = kinds(ask, policy);
    let mut grants = Vec::new();
    if kinds.contains(&Kind::Mig) {
        grants.extend(every_compute(node, ask));
    }
    if kinds.contains(&Kind::Mig) && ask.request.instances <= 1 {
        grants.extend(every_place(node).map(|spec| Grant::Mig(vec![spec])));
    } else if kinds.contains(&Kind::Mig) {
        grants.extend(
            [false, true].into_iter().filter_map(|last_first| one_by_one(node, ask, policy, last_first)),
        );
    }
    if kinds.contains(&Kind::Mps) {
        grants.extend(shares(node, ask, policy));
    }
    if kinds.contains(&Kind::Tasks) && ask.request.gpus.is_none() {
        grants.extend(seats(node, ask, policy).into_iter().map(Grant::Tasks));
    } else if kinds.contains(&Kind::Tasks) && chosen.is_none() && policy.tasks.is_some() {
        let probes = ask.request.isolation == Isolation::Tasks { probes: true };
        let own = |grant| match grant {
            Grant::Whole(gpus) => {
                let on = TaskDevices::Own { gpus, seats: ask.request.seats };
                Some(Grant::Tasks(TaskGrant { on, mem_mib: ask.request.mem_mib, probes }))
            }
            _ => None,
        };
        grants.extend(whole_sets(node, &as_whole(node, ask, policy)).into_iter().filter_map(own));
    }
    if kinds.contains(&Kind::Whole) && !matches!(chosen, Some(Grant::Whole(_))) {
        grants.extend(whole_sets(node, ask));
    }
    grants
}

/// Several instances, each at the first place (or the last) where it can be. Not the best grant, but a possible one.
fn one_by_one(node: &Node, ask: &Ask, policy: &Policy, last_first: bool) -> Option<Grant> {
    let wanted = ask.request.instances as usize;
    let mut one = ask.clone();
    one.request.instances = 1;
    let mut places: Vec<MigSpec> = every_place(node).collect();
    if last_first {
        places.reverse();
    }
    places.retain(|spec| legal(node, &one, policy, &Grant::Mig(vec![*spec])).is_empty());
    // As many as can be on these GPUs, at most `each` on one.
    let only_on = |gpu: Option<GpuIndex>, before: &[MigSpec], each: usize, most: usize| {
        let mut specs = before.to_vec();
        for spec in places.iter().filter(|s| gpu.is_none_or(|gpu| s.gpu == gpu)) {
            specs.push(*spec);
            let mut together = Ask { spread: Spread::Any, ..ask.clone() };
            together.request.instances = u32::try_from(specs.len()).unwrap_or(u32::MAX);
            let here = specs.iter().filter(|s| s.gpu == spec.gpu).count();
            let is_legal = || legal(node, &together, policy, &Grant::Mig(specs.clone())).is_empty();
            if specs.len() > most || here > each || !is_legal() {
                specs.pop();
            }
        }
        specs
    };
    let gpus = || (0_u16..).take(node.gpus.len()).map(GpuIndex);
    let grant = |mut specs: Vec<MigSpec>| {
        specs.sort_unstable_by_key(|s| (s.gpu, s.start));
        (specs.len() == wanted).then_some(Grant::Mig(specs))
    };
    let alike = |each: usize| {
        let add = |specs: Vec<MigSpec>, gpu| {
            let with = only_on(Some(gpu), &specs, each, wanted);
            if with.len() == specs.len() + each { with } else { specs }
        };
        grant(gpus().fold(Vec::new(), add))
    };
    match ask.spread {
        Spread::Any => grant(only_on(None, &[], wanted, wanted)),
        Spread::OneGpu => alike(wanted),
        Spread::Alike { most } => {
            let each = (1..=wanted.min(most as usize)).rev().filter(|each| wanted.is_multiple_of(*each));
            each.filter_map(alike).next()
        }
    }
}

/// The requested share on every device that the node has or could have.
pub fn shares(node: &Node, ask: &Ask, policy: &Policy) -> Vec<Grant> {
    let Some(mem_mib) = ask.request.mem_mib.or(policy.default_mem_mib) else { return Vec::new() };
    let gpus = (0_u16..).take(node.gpus.len()).map(|i| ShareOn::Gpu(GpuIndex(i)));
    let devices = gpus.chain(every_place(node).map(ShareOn::Instance));
    let threads = |on| threads(node, ask, policy, mem_mib, on);
    devices.filter_map(|on| Some(Grant::Mps { on, mem_mib, threads: threads(on)? })).collect()
}

/// The lowest GPUs that would do; `sets` compares sets with each other.
fn whole_sets(node: &Node, ask: &Ask) -> Vec<Grant> {
    let all = (0_u16..).take(node.gpus.len()).map(GpuIndex);
    let free: Vec<GpuIndex> = all.filter(|i| could_be_whole(node, ask, *i)).collect();
    let n = ask.request.gpus.unwrap_or(1) as usize;
    let set: Vec<GpuIndex> = match &ask.quotas[..] {
        [] => free.into_iter().take(n).collect(),
        quotas => {
            let of = |q: &topology::Quota| {
                let group = free.iter().copied().filter(|g| q.of.iter().any(|of| of == *g));
                group.take(q.n).collect::<Vec<_>>()
            };
            quotas.iter().flat_map(of).collect()
        }
    };
    if set.len() == n { vec![Grant::Whole(set)] } else { Vec::new() }
}
