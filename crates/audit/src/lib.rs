//! A second opinion: checks decisions and node states without any code of the placement crate.
//!
//! Meant to be slow, plain and obviously right: occupancy is a list of units, scores are recounted from scratch, and
//! every alternative that is cheap to enumerate is weighed again. It runs in tests and in debug builds.
#![forbid(unsafe_code)]

mod legal;
mod price;
mod sets;
mod state;

pub use legal::legal;
pub use price::{Price, price};
pub use state::audit_node;

use std::fmt;

use geometry::GpuIndex;
use node_state::{Ask, Decision, GpuState, Kind, Node, Policy};
use protocol::{Grant, Isolation, MigSpec, ShareOn};

/// Something that is not as it must be: a bug of ours, or a state that did not come from us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// On this GPU, where it is about one.
    pub gpu: Option<GpuIndex>,
    /// What.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gpu {
            Some(gpu) => write!(f, "GPU {gpu}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

fn finding(gpu: impl Into<Option<GpuIndex>>, what: impl Into<String>) -> Finding {
    Finding { gpu: gpu.into(), what: what.into() }
}

/// Checks a decision: what was chosen is legal, and among the alternatives that are cheap to enumerate (every single
/// instance, every device for a share, every order of every small set of whole GPUs) none is better; where nothing was
/// chosen, none of them is legal. What the report says of a set of whole GPUs is counted again. Empty: no objection.
#[must_use]
pub fn audit(node: &Node, ask: &Ask, policy: &Policy, decision: &Decision) -> Vec<Finding> {
    let Some(chosen) = &decision.chosen else {
        let possible = alternatives(node, ask, policy, None);
        let possible = possible.iter().find(|g| legal(node, ask, policy, g).is_empty());
        return possible
            .map(|g| finding(None, format!("nothing chosen, but {g:?} is legal")))
            .into_iter()
            .collect();
    };
    let mut findings = legal(node, ask, policy, chosen);
    if !findings.is_empty() {
        return findings;
    }
    if let Grant::Whole(order) = chosen {
        findings.extend(sets::check(node, ask, policy, decision, order));
    }
    let paid = price(node, policy, chosen);
    let mut others = alternatives(node, ask, policy, Some(chosen));
    // A planned place that can be had comes before every other.
    let planned = legal::as_planned(node, ask, policy).filter(|g| legal(node, ask, policy, g).is_empty());
    if let (Some(planned), Grant::Mig(_)) = (planned, chosen) {
        if planned != *chosen {
            findings.push(finding(None, format!("{planned:?} is planned and legal, not {chosen:?}")));
        }
        others.retain(|g| kind_of(g) != Kind::Mig);
    }
    let legal = others.into_iter().filter(|g| legal(node, ask, policy, g).is_empty());
    let mut best: Vec<(Price, Grant)> = Vec::new();
    for (price, grant) in legal.map(|g| (price(node, policy, &g), g)) {
        match best.iter_mut().find(|(known, _)| known.kind == price.kind) {
            Some(known) if price.beats_same_kind(&known.0) => *known = (price, grant),
            Some(_) => {}
            None => best.push((price, grant)),
        }
    }
    for (price, other) in best {
        let same = price.kind == paid.kind;
        if (same && price.beats_same_kind(&paid)) || (!same && price.beats_other_kind(&paid)) {
            findings.push(finding(None, format!("{other:?} is better than {chosen:?}")));
        }
    }
    findings
}

fn kind_of(grant: &Grant) -> Kind {
    match grant {
        Grant::Mig(_) => Kind::Mig,
        Grant::Mps { .. } => Kind::Mps,
        Grant::Whole(_) => Kind::Whole,
    }
}

/// Kinds that the request may be given.
fn kinds<'a>(ask: &Ask, policy: &'a Policy) -> &'a [Kind] {
    match &ask.request.isolation {
        Isolation::Mig(_) => &[Kind::Mig],
        Isolation::Mps => &[Kind::Mps],
        Isolation::Whole => &[Kind::Whole],
        Isolation::Auto => &policy.auto,
        Isolation::None => &[],
    }
}

/// Grants worth comparing with, legal or not: all single instances, all devices, some whole GPUs.
fn alternatives(node: &Node, ask: &Ask, policy: &Policy, chosen: Option<&Grant>) -> Vec<Grant> {
    let kinds = kinds(ask, policy);
    let mut grants = Vec::new();
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
    if kinds.contains(&Kind::Whole) && !matches!(chosen, Some(Grant::Whole(_))) {
        grants.extend(whole_sets(node, ask));
    }
    grants
}

/// Several instances, each at the first place (or the last) where it can be: not clever, but what it finds exists.
fn one_by_one(node: &Node, ask: &Ask, policy: &Policy, last_first: bool) -> Option<Grant> {
    let wanted = ask.request.instances as usize;
    let mut one = ask.clone();
    one.request.instances = 1;
    let mut places: Vec<MigSpec> = every_place(node).collect();
    if last_first {
        places.reverse();
    }
    places.retain(|spec| legal(node, &one, policy, &Grant::Mig(vec![*spec])).is_empty());
    let only_on = |gpu: Option<GpuIndex>| {
        let mut specs: Vec<MigSpec> = Vec::new();
        for spec in places.iter().filter(|s| gpu.is_none_or(|gpu| s.gpu == gpu)) {
            specs.push(*spec);
            let mut together = ask.clone();
            together.request.instances = u32::try_from(specs.len()).unwrap_or(u32::MAX);
            if specs.len() > wanted || !legal(node, &together, policy, &Grant::Mig(specs.clone())).is_empty()
            {
                specs.pop();
            }
        }
        specs.sort_unstable_by_key(|s| (s.gpu, s.start));
        (specs.len() == wanted).then_some(Grant::Mig(specs))
    };
    if !ask.same_gpu_only {
        return only_on(None);
    }
    (0_u16..).take(node.gpus.len()).find_map(|gpu| only_on(Some(GpuIndex(gpu))))
}

/// Every legal start of every profile of every GPU.
pub fn every_place(node: &Node) -> impl Iterator<Item = MigSpec> {
    node.gpus.iter().zip(0_u16..).flat_map(|(gpu, i)| {
        gpu.model.profiles.iter().flat_map(move |profile| {
            let spec = move |start| MigSpec { gpu: GpuIndex(i), profile: profile.id, start };
            profile.starts.iter().copied().map(spec)
        })
    })
}

/// The share asked for, on every device of the node that is or could be.
pub fn shares(node: &Node, ask: &Ask, policy: &Policy) -> Vec<Grant> {
    let Some(mem_mib) = ask.request.mem_mib.or(policy.default_mem_mib) else { return Vec::new() };
    let gpus = (0_u16..).take(node.gpus.len()).map(|i| ShareOn::Gpu(GpuIndex(i)));
    let devices = gpus.chain(every_place(node).map(ShareOn::Instance));
    let threads = |on| legal::threads(node, ask, policy, mem_mib, on);
    devices.filter_map(|on| Some(Grant::Mps { on, mem_mib, threads: threads(on)? })).collect()
}

/// The lowest GPUs that would do. Which of several sets is better is for `sets`.
fn whole_sets(node: &Node, ask: &Ask) -> Vec<Grant> {
    let all = (0_u16..).take(node.gpus.len()).map(GpuIndex);
    let free: Vec<GpuIndex> = all.filter(|i| legal::could_be_whole(node, ask, *i)).collect();
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

/// Whether nobody has anything on the GPU.
fn unused(state: &GpuState) -> bool {
    match state {
        GpuState::Free => true,
        GpuState::Whole(_) | GpuState::Mps(_) => false,
        GpuState::Mig(instances) => instances.iter().all(|i| matches!(i.holder, node_state::Holder::Idle)),
    }
}
