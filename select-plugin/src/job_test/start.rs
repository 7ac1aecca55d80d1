//! A start that Slurm thinks possible: now, or when it could be.

use std::collections::HashSet;

use geometry::JobId;
use plugin_rt::log;
use protocol::set_summary::{SetSummary, encode};
use protocol::wire::JobPlacement;

use super::wait::{wait_alone, wait_later, wait_now};
use super::{Opinion, Slurm, Test};
use crate::commit::{Placed, Veto, encoded, place, why_of_all};
use crate::effect::{Devices, Effect};
use crate::engine::{Engine, Question};
use crate::memory::{Memory, Pending};
use crate::narrow::first_fit;
use crate::view::{GresKind, JobView, NodeView, Want};

/// One job's question on the nodes that Slurm chose for it.
pub(super) struct Asked<'a, S> {
    pub(super) question: Question,
    pub(super) view: &'a JobView,
    pub(super) want: &'a Want,
    pub(super) nodes: Vec<NodeView>,
    pub(super) slurm: &'a S,
}

/// What was decided for a job on all its nodes.
pub(super) struct Decided {
    placement: JobPlacement,
    /// Why, for the job's user: of several nodes, the one with the least bandwidth.
    pub(super) why: String,
    /// How sets of whole GPUs were chosen, by node.
    matched: Vec<(String, SetSummary)>,
    /// The node whose set is predicted to reach the least, and that, GB/s.
    pub(super) poorest: Option<(String, f64)>,
}

impl<'a, S: Slurm> Asked<'a, S> {
    fn new(view: &'a JobView, want: &'a Want, engine: &Engine, slurm: &'a S) -> Self {
        let question = engine.question(view.id, view.uid, want);
        Self { question, view, want, nodes: slurm.nodes(), slurm }
    }

    /// When the jobs on a node end, seconds since 1970.
    pub(super) fn ends(&self, engine: &Engine, node: &str) -> Vec<(i64, JobId)> {
        engine.jobs_on(node).into_iter().map(|id| (self.slurm.end_of(id), id)).collect()
    }
}

/// A decision, the jobs that must go first, or a refusal.
pub(super) fn now(
    test: &Test,
    view: &JobView,
    want: &Want,
    memory: &mut Memory,
    slurm: &impl Slurm,
) -> (Opinion, Vec<Effect>) {
    memory.tried.forget(view.id);
    let mut effects = Vec::new();
    let engine = &mut memory.engine;
    let asked = Asked::new(view, want, engine, slurm);
    let veto = match decide(&asked, engine, &mut effects) {
        Ok(mut decided) => {
            if wait_now(&asked, engine, &mut decided, &mut effects) {
                return (Opinion::Refused, effects);
            }
            effects.extend(written_down(engine, &decided));
            let planned = want.plan.as_ref().and_then(|p| p.begin.zip(p.end));
            memory.pending = Some(Pending { record: test.record, placement: decided.placement, planned });
            return (Opinion::AsSlurmSays, effects);
        }
        Err(veto) => veto,
    };
    if let Some(gone) = preempt(&asked, engine, &mut effects) {
        effects.push(Effect::Placement(None));
        let held = wait_alone(&asked, engine, &gone, &mut effects);
        return (if held { Opinion::Refused } else { Opinion::AsSlurmSays }, effects);
    }
    // Devices near the job's cores and of its type change with other things than the node's GPUs.
    if want.managed && want.kind == GresKind::Shard && !want.keep_choice && !view.enforce_bind {
        engine.refused(&veto.node, &asked.question);
    }
    log::debug(format_args!("job {}: {veto}", view.id.0));
    effects.extend(Effect::refusal());
    (Opinion::Refused, effects)
}

/// Moves a start that Slurm thinks possible to when enough jobs are over, for our slices are not its shards, and to when a
/// job takes what it would have.
pub(super) fn later(
    view: &JobView,
    want: &Want,
    engine: &mut Engine,
    slurm: &impl Slurm,
    has_good: bool,
) -> (Opinion, Vec<Effect>) {
    let mut effects = Vec::new();
    let asked = Asked::new(view, want, engine, slurm);
    let gone = slurm.preempted().unwrap_or_default();
    let held = if gone.is_empty() {
        let slurms = slurm.start_time();
        let starts = asked.nodes.iter().filter_map(|n| {
            let ends = asked.ends(engine, &n.name);
            first_fit(engine.node(&n.name)?, &asked.question, ends, slurms)
        });
        let start = starts.fold(slurms, i64::max);
        effects.extend((start != slurms).then_some(Effect::StartAt(start)));
        wait_later(&asked, engine, start, has_good, &mut effects)
    } else {
        slurm.in_backfill() && wait_alone(&asked, engine, &gone, &mut effects)
    };
    (if held { Opinion::Refused } else { Opinion::AsSlurmSays }, effects)
}

/// A decision for each of the nodes that Slurm chose. `effects` gets their devices.
fn decide<S: Slurm>(
    asked: &Asked<'_, S>,
    engine: &Engine,
    effects: &mut Vec<Effect>,
) -> Result<Decided, Veto> {
    let fixed = asked.want.kind == GresKind::Gpu && asked.slurm.reserves_devices();
    let mut grants = Vec::new();
    let mut whys: Vec<(f64, String)> = Vec::new();
    let mut matched = Vec::new();
    let mut poorest: Option<(String, f64)> = None;
    for node in &asked.nodes {
        let Some(mut slurms) = asked.slurm.choice(node).filter(|c| !c.chosen().is_empty()) else { continue };
        if fixed {
            slurms.entries.iter_mut().for_each(|entry| entry.available = entry.chosen);
        }
        let ends = asked.ends(engine, &node.name);
        let question = engine.with_next(asked.question.clone(), &node.name, &ends);
        let Some(placed) = place(engine, question, asked.want, &slurms) else { continue };
        let Placed { grant, devices, entries, why, gbps, matched: how } = placed?;
        effects.push(Effect::Devices(Devices { node: node.index, devices, entries }));
        // Nobody is told of a bandwidth between the GPUs of a set that has one GPU.
        let told = how.as_ref().and_then(SetSummary::gbps).map_or(f64::INFINITY, |_| gbps);
        whys.push((told, why));
        if poorest.as_ref().is_none_or(|(_, least)| gbps < *least) {
            poorest = Some((node.name.clone(), gbps));
        }
        matched.extend(how.map(|m| (node.name.clone(), m)));
        grants.push((node.name.clone(), grant));
    }
    let why = why_of_all(whys, &grants);
    Ok(Decided { placement: JobPlacement { job: asked.view.id, nodes: grants }, why, matched, poorest })
}

/// Puts a decision into the job's SPANK environment.
fn written_down(engine: &Engine, decided: &Decided) -> [Effect; 3] {
    let Decided { placement, why, matched, .. } = decided;
    [
        Effect::Placement(encoded(engine, placement)),
        Effect::Why(Some(why.clone()).filter(|_| !placement.nodes.is_empty())),
        Effect::Match((!matched.is_empty()).then(|| encode(matched))),
    ]
}

/// Completes Slurm's list of jobs to preempt by those whose slices are in the way; `None`: that would not help.
///
/// cons_tres stops as soon as there are shards enough, and takes a node with enough of them as it is.
fn preempt<S: Slurm>(
    asked: &Asked<'_, S>,
    engine: &Engine,
    effects: &mut Vec<Effect>,
) -> Option<HashSet<JobId>> {
    let mut gone = asked.slurm.preempted()?;
    let victims = asked.slurm.victims();
    for node in asked.nodes.iter().filter(|n| engine.node(&n.name).is_some()) {
        let mut question = asked.question.clone();
        if asked.want.kind == GresKind::Gpu {
            let chosen = asked.slurm.choice(node).map_or(0, |c| c.chosen().len());
            question.ask.request.gpus = u32::try_from(chosen).ok().filter(|n| *n > 0);
        }
        for id in engine.in_the_way(&node.name, &question, &gone, &victims)? {
            effects.push(Effect::Preempt(id));
            gone.insert(id);
        }
    }
    (!gone.is_empty()).then_some(gone)
}
