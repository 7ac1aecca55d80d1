//! From Slurm's choice of nodes to a placement. Pure: it only says what to write.

use std::collections::{BTreeMap, HashSet};

use decision_report::Decision;
use decision_report::report::Fate;
use geometry::{GpuIndex, JobId};
use node_state::Node;
use protocol::set_summary::SetSummary;
use protocol::wire::{JobPlacement, encode_placement, plain_why};
use protocol::{Grant, NodeGrant, ShareOn};
use topology::{GpuSet, Quota};

use crate::engine::power::SlurmsGpus;
use crate::engine::{Engine, Question, predicted};
use crate::view::{Allocated, ChosenView, GresKind, Want, union};

/// Result for one node's device bits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Placed {
    /// The job's grant.
    pub(crate) grant: Grant,
    /// Devices in Slurm's accounts, each with the number of parts of the job that it carries.
    pub(crate) devices: Vec<(usize, u64)>,
    /// Devices that each of the job's entries in Slurm's accounts may have.
    pub(crate) entries: Vec<GpuSet>,
    /// Why this, in a line for the user.
    pub(crate) why: String,
    /// Bandwidth that the set of whole GPUs is predicted to reach, GB/s; infinity where nothing is predicted.
    pub(crate) gbps: f64,
    /// For whole GPUs: how the set was chosen and what it promises.
    pub(crate) matched: Option<SetSummary>,
}

/// Slurm's choice cannot be used, and nothing else fits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no legal placement on {node} among the devices Slurm has free for it")]
pub(crate) struct Veto {
    /// The first node, by name, that ruled the start out.
    pub(crate) node: String,
    /// True if the node's GPUs alone rule it out, not what the job gets on others.
    pub(crate) by_itself: bool,
}

impl Veto {
    fn on(slurm: &ChosenView) -> Self {
        Self { node: slurm.name.clone(), by_itself: true }
    }
}

/// Decides for one of the nodes that cons_tres chose; `None`: the node is not managed.
///
/// Only devices that Slurm could have chosen itself come into question, so its accounts stay true.
pub(crate) fn place(
    engine: &Engine,
    question: Question,
    want: &Want,
    slurm: &ChosenView,
) -> Option<Result<Placed, Veto>> {
    let node = engine.node(&slurm.name)?;
    let mut question = question.on(&slurm.name);
    if want.kind == GresKind::Shard && !want.managed && slurm.chosen().len() > 1 {
        // Plain shards of several devices, as later Slurms can give them (MULTIPLE_SHARING_GRES_PJ): the devices become
        // the job's as a whole, so nobody may be on them, and Slurm's choice stands.
        let whole = question.of_whole(slurm.chosen());
        let many = SlurmsGpus { gpus: Some(slurm.chosen().len() as u64), asked_w: None, fixed: true };
        let powered = engine.without_power(&[&slurm.name], many, false).is_empty();
        return if powered && whole.fits(node) { None } else { Some(Err(Veto::on(slurm))) };
    }
    let left = engine.left_to_slurm(&slurm.name, slurm.chosen());
    if want.kind == GresKind::Shard && !want.managed && !left.is_empty() && left == slurm.chosen() {
        // A GPU that is Slurm's alone: its choice stands, and nothing is made there.
        return None;
    }
    let available: Vec<GpuSet> = slurm.entries.iter().map(|e| e.available).collect();
    // An entry of any type beside one of a certain type: only the order is ours.
    let order_only = want.kind == GresKind::Gpu && overlap(&available);
    let entries = if order_only { slurm.entries.iter().map(|e| e.chosen).collect() } else { available };
    question = among_slurms_devices(question, want, slurm, order_only);
    if let Some(powered) = engine.powered_gpus(&slurm.name, &question) {
        question = question.within(powered);
    }
    let own = want.slurms_choice.then(|| {
        let mut own = question.clone().within(slurm.chosen());
        own.ask.quotas.clear();
        own.decide(node)
    });
    let own = own.filter(|own| own.chosen.is_some());
    // Among GPUs that Slurm has chosen, the engine knows of no other free ones.
    let among_slurms = own.is_some() || order_only;
    let mut decision = own.unwrap_or_else(|| question.decide(node));
    if want.kind == GresKind::Gpu && question.pays_for_links() && !order_only {
        decision = near_the_cores(decision, question, node, slurm);
    }
    let reason =
        if among_slurms && decision.chosen.is_some() { SLURMS_CHOICE.to_owned() } else { decision.reason() };
    let why = plain_why(&planned_why(want, reason));
    let matched = decision.set_summary();
    let gbps = predicted(&decision);
    let placed = |grant| Placed { devices: devices(&grant, want.kind), grant, entries, why, gbps, matched };
    Some(decision.chosen.map(placed).ok_or_else(|| Veto::on(slurm)))
}

/// The question among those devices that Slurm lets the job have.
fn among_slurms_devices(
    mut question: Question,
    want: &Want,
    slurm: &ChosenView,
    order_only: bool,
) -> Question {
    if want.kind == GresKind::Shard {
        return question.within(if want.keep_choice { slurm.chosen() } else { slurm.available() });
    }
    question.ask.request.gpus = u32::try_from(slurm.chosen().len()).ok();
    question.ask.allowed = Some(if order_only { slurm.chosen() } else { slurm.available() });
    question.ask.quotas = if order_only { Vec::new() } else { quotas(slurm, !question.pays_for_links()) };
    question
}

/// Chooses, among equally good sets, the one near the job's cores.
fn near_the_cores(decision: Decision, mut question: Question, node: &Node, slurm: &ChosenView) -> Decision {
    let near = quotas(slurm, true);
    if near == question.ask.quotas {
        return decision;
    }
    question.ask.quotas = near;
    let nearer = question.decide(node);
    if equally_good(&decision, &nearer) { nearer } else { decision }
}

/// Why a job has the GPUs that Slurm chose for it, for its user.
const SLURMS_CHOICE: &str = "Slurm's own choice";

/// Why a job got what it has, for its user: of several nodes, the one with the least bandwidth. `whys` has each node's,
/// with what its set is predicted to reach, in the order of `grants`.
pub(crate) fn why_of_all(whys: Vec<(f64, String)>, grants: &[(String, NodeGrant)]) -> String {
    let slowest = whys.into_iter().zip(grants).min_by(|((a, _), _), ((b, _), _)| a.total_cmp(b));
    match slowest {
        Some(((gbps, why), (node, _))) if gbps.is_finite() && grants.len() > 1 => {
            plain_why(&format!("{node}: {why}"))
        }
        Some(((_, why), _)) => why,
        None => String::new(),
    }
}

/// Why a job got its size, where a planner had a say in it.
fn planned_why(want: &Want, reason: String) -> String {
    match &want.plan {
        Some(plan) if !reason.is_empty() => {
            let rest = reason.strip_prefix("as named").unwrap_or(&reason);
            format!("{}{rest}", plan.in_words(&want.request))
        }
        None if want.lapsed && !reason.is_empty() => format!("its plan had lapsed; {reason}"),
        _ => reason,
    }
}

/// Gives the numbers of GPUs to choose: of each type and socket as many as Slurm chose. Where `local`, those near the job's
/// cores as far as they suffice, as Slurm itself prefers them. Empty where any will do.
fn quotas(slurm: &ChosenView, local: bool) -> Vec<Quota> {
    let mut quotas = Vec::new();
    for entry in &slurm.entries {
        let groups =
            if entry.sockets.is_empty() { std::slice::from_ref(&entry.available) } else { &entry.sockets };
        for group in groups {
            let (of, n) = (entry.available.and(*group), entry.chosen.and(*group).len());
            let near = of.and(slurm.near);
            let of = if local && near.len() >= n { near } else { of };
            quotas.extend((n > 0).then_some(Quota { of, n }));
        }
    }
    match quotas[..] {
        [Quota { of, .. }] if of == slurm.available() => Vec::new(),
        _ => quotas,
    }
}

/// Tells whether two sets of whole GPUs have the same links, promise the job the same, and leave the same to others.
fn equally_good(a: &Decision, b: &Decision) -> bool {
    // Sums of links, whose order of addition differs.
    let same = |a: f64, b: f64| (a - b).abs() <= 1e-6 * a.abs().max(b.abs());
    match (a.report.best, b.report.best) {
        (Some(Fate::Set(a)), Some(Fate::Set(b))) => {
            same(a.scores.agg_bw, b.scores.agg_bw)
                && same(a.scores.eff_bw.unwrap_or(0.0), b.scores.eff_bw.unwrap_or(0.0))
                && same(a.preserved_bw, b.preserved_bw)
        }
        (Some(Fate::Links { mb_s: a, .. }), Some(Fate::Links { mb_s: b, .. })) => a == b,
        _ => false,
    }
}

fn overlap(sets: &[GpuSet]) -> bool {
    union(sets.iter().copied()).len() < sets.iter().map(|s| s.len()).sum()
}

fn devices(grant: &Grant, kind: GresKind) -> Vec<(usize, u64)> {
    let parts = |gpu| match (grant, kind) {
        (Grant::Mig(specs), GresKind::Shard) => specs.iter().filter(|s| s.gpu == gpu).count() as u64,
        _ => 1,
    };
    grant.gpus().into_iter().map(|g| (usize::from(g.0), parts(g))).collect()
}

/// Completes a job's placement by what Slurm has allocated to it without one: a job from before Tessera was installed,
/// `--exclusive`, or a mixture of GRES. Its devices are then taken, whatever it does with them.
pub(crate) fn unmanaged(
    engine: &Engine,
    job: JobId,
    placement: Option<JobPlacement>,
    allocated: &[Allocated],
) -> JobPlacement {
    let mut all = placement.unwrap_or(JobPlacement { job, nodes: Vec::new() });
    let placed: HashSet<&str> = all.nodes.iter().map(|(name, _)| name.as_str()).collect();
    // Slurm has an entry for each type of device. Shards of one GPU are a part of it, anything else is whole GPUs.
    let mut found: BTreeMap<&str, (GpuSet, Option<u64>)> = BTreeMap::new();
    for Allocated { node, kind, gpus, amount } in allocated.iter().filter(|on| !placed.contains(&*on.node)) {
        let left = engine.left_to_slurm(node, *gpus);
        let ours = |gpu: &GpuIndex| *kind == GresKind::Gpu || !left.contains(*gpu);
        let known = gpus.iter().filter(|g| engine.model_of(node, *g).is_some());
        let (free, shards) = (known.filter(ours).collect(), (*kind == GresKind::Shard).then_some(*amount));
        found
            .entry(node)
            .and_modify(|(gpus, all)| {
                *gpus = union([*gpus, free].into_iter());
                *all = all.zip(shards).map(|(a, b)| a.saturating_add(b));
            })
            .or_insert((free, shards));
    }
    for (node, (free, shards)) in found.into_iter().filter(|(_, (free, _))| !free.is_empty()) {
        let grant = match (shards, free.iter().next()) {
            (Some(amount), Some(gpu)) if free.len() == 1 => {
                let count = u32::try_from(amount).unwrap_or(u32::MAX);
                let model = engine.model_of(node, gpu);
                let total = model.map_or(1, |m| m.total_memory_mib.max(1));
                let mem_mib = model.map_or(1, |m| m.shards_mib(count)).clamp(1, total);
                let threads = u8::try_from((mem_mib * 100).div_ceil(total)).unwrap_or(100);
                Grant::Mps { on: ShareOn::Gpu(gpu), mem_mib, threads }
            }
            _ => Grant::Whole(free.iter().collect()),
        };
        all.nodes.push((node.to_owned(), grant.into()));
    }
    all
}

/// A placement as the job's SPANK environment has it, which Slurm saves and hands to prolog and epilog; `None` for one
/// without nodes.
pub(crate) fn encoded(engine: &Engine, placement: &JobPlacement) -> Option<String> {
    let text = || encode_placement(placement, &|node, gpu| engine.model_of(node, gpu));
    (!placement.nodes.is_empty()).then(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_nodes_the_slowest_says_why() {
        let on = |node: &str| (node.to_owned(), Grant::Whole(Vec::new()).into());
        let said = |gbps: &[f64], nodes: &[&str]| {
            let whys = gbps.iter().map(|g| (*g, format!("{g} GB/s"))).collect();
            why_of_all(whys, &nodes.iter().map(|n| on(n)).collect::<Vec<_>>())
        };
        assert_eq!(said(&[50.0], &["n1"]), "50 GB/s");
        assert_eq!(said(&[50.0, 10.0, 10.0], &["n1", "n2", "n3"]), "n2: 10 GB/s");
        assert_eq!(said(&[f64::INFINITY, f64::INFINITY], &["n1", "n2"]), "inf GB/s");
        assert_eq!(said(&[], &[]), "");
    }
}
