//! A start that Slurm thinks possible: now, or when it could be.

use std::collections::{HashMap, HashSet};

use decision_counts::decisions::Reason;
use geometry::JobId;
use node_state::Spread;
use placement::{HostResources, Short, Victim};
use plugin_rt::log;
use protocol::set_summary::{SetSummary, encode};
use protocol::wire::JobPlacement;
use protocol::{CommentBody, Grant, NodeGrant};

use super::Opinion;
use super::chosen::{Asked, Decided};
use super::wait::{wait_alone, wait_later, wait_now};
use crate::effect::{Counted, Devices, Effect};
use crate::engine::Engine;
use crate::limited;
use crate::memory::{Memory, Pending, Tried, Ways};
use crate::narrow::first_fit;
use crate::node_order::Costs;
use crate::place_on_node::{Placed, Veto, encoded, place, why_of_all};
use crate::slices;
use crate::slurm::{Slurm, Test};
use crate::view::{GresKind, JobView, NodeView, Want};

/// A job that Slurm thinks it can start now.
pub(super) struct Start<'a> {
    pub(super) test: &'a Test,
    pub(super) view: &'a JobView,
    pub(super) want: &'a Want,
    /// Shards of each of its instances, if it has several.
    pub(super) per_instance: Option<u32>,
    /// The candidates for preemption, least important first.
    pub(super) victims: &'a [JobId],
    /// Costs of the nodes that Slurm chose from.
    pub(super) costs: &'a Costs,
}

impl Start<'_> {
    /// A decision, the jobs that must go first, or a refusal.
    pub(super) fn now(&self, memory: &mut Memory, slurm: &impl Slurm) -> (Opinion, Vec<Effect>) {
        let Self { test, view, want, per_instance, victims, costs } = *self;
        let _ways = memory.tried.take(view);
        let mut effects = Vec::new();
        let engine = &mut memory.engine;
        let asked = Asked::new(view, want, engine, slurm);
        if let Some(why) = asked.whole_of_several(engine) {
            return (Opinion::Refused(Reason::Limit), limited::refuse(view, why));
        }
        let decided = match per_instance {
            Some(one) => decide_alike(&asked, one, engine, &mut effects),
            None => decide_counted(&asked, engine, &mut effects),
        };
        let veto = match decided {
            Ok(mut decided) => {
                if let Err(short) = decided.take_caps(engine, want) {
                    return without_power(&asked, engine, &short, effects);
                }
                let takes = slices::taken_in_test(engine, view, Some(&decided.placement), asked.nodes, slurm);
                if let Some(why) = limited::why_not_with(view, || takes, engine) {
                    effects.extend(limited::refuse(view, why));
                    return (Opinion::Refused(Reason::Limit), effects);
                }
                if wait_now(&asked, engine, &mut decided, &mut effects) {
                    return (Opinion::Refused(Reason::BetterGpus), effects);
                }
                if let [node] = asked.nodes {
                    decided.add_node(costs.why_taken(node.index));
                }
                effects.extend(written_down(engine, &decided));
                effects.push(Effect::Slices(takes.slices));
                if slurm.preempted().is_some_and(|jobs| !jobs.is_empty()) {
                    // There is room on the GPUs, and Slurm needs cores or memory.
                    preempt(&asked, engine, victims, &mut effects);
                }
                let planned = want.plan.as_ref().and_then(|p| p.begin.zip(p.end));
                let low = want.plan.as_ref().and_then(|p| p.sharing.low);
                memory.pending =
                    Some(Pending { record: test.record, placement: decided.placement, planned, low });
                return (Opinion::AsSlurmSays, effects);
            }
            Err(veto) => veto,
        };
        self.vetoed(&asked, &veto, engine, &mut memory.tried, effects)
    }

    /// The jobs that must go first, or a refusal, where a node has no place for the job.
    fn vetoed<S: Slurm>(
        &self,
        asked: &Asked<'_, S>,
        veto: &Veto,
        engine: &mut Engine,
        tried: &mut Tried,
        mut effects: Vec<Effect>,
    ) -> (Opinion, Vec<Effect>) {
        let Self { view, want, victims, .. } = *self;
        let names: Vec<&str> = asked.nodes.iter().map(|node| &*node.name).collect();
        // Nobody ends for a job that would then wait for power.
        let (gone, lack) = match preempt(asked, engine, victims, &mut effects) {
            Some(gone) if !engine.has_power_without(&names, &asked.question, &gone) => (None, Reason::Power),
            gone => (gone, Reason::NoRoom),
        };
        if let Some(gone) = gone {
            effects.push(Effect::Placement(None));
            let held = wait_alone(asked, engine, &gone, &mut effects);
            return (if held { Opinion::Refused(Reason::BetterGpus) } else { Opinion::AsSlurmSays }, effects);
        }
        // Devices near the job's cores and of its type change with other things than the node's GPUs.
        let by_slices = want.managed && want.kind == GresKind::Shard && !want.keep_choice;
        if veto.by_itself && by_slices && !view.enforce_bind {
            engine.refused(&veto.node, &asked.question);
        } else {
            let vetoed = asked.nodes.iter().find(|node| *node.name == *veto.node).map(|node| node.index);
            tried.add(view, Ways { vetoed, ..Ways::default() });
        }
        log::debug(format_args!("job {}: {veto}", view.id.0));
        effects.extend(Effect::refusal());
        (Opinion::Refused(lack), effects)
    }
}

/// Refuses a start for which a budget has no power.
fn without_power<S: Slurm>(
    asked: &Asked<'_, S>,
    engine: &mut Engine,
    short: &Short,
    mut effects: Vec<Effect>,
) -> (Opinion, Vec<Effect>) {
    if asked.nodes.len() == 1 {
        // Of several, some may have power enough.
        engine.refused_everywhere(asked.nodes, &asked.question);
    }
    effects.extend(Effect::said(asked.view, CommentBody::Power(short.to_string())));
    effects.extend(Effect::refusal());
    (Opinion::Refused(Reason::Power), effects)
}

/// Moves the start that Slurm foretells to when all of its nodes have a place for the job.
pub(super) fn placed<S: Slurm>(asked: &Asked<'_, S>, engine: &Engine) -> i64 {
    let slurms = asked.slurm.start_time();
    let starts = asked.nodes.iter().filter_map(|n| {
        let ends = asked.ends(engine, &n.name);
        first_fit(engine.node(n)?, &asked.question, ends, slurms)
    });
    starts.fold(slurms, i64::max)
}

/// Moves it to when they have power, too.
pub(super) fn foretold<S: Slurm>(asked: &Asked<'_, S>, engine: &Engine) -> i64 {
    let names: Vec<&str> = asked.nodes.iter().map(|node| &*node.name).collect();
    let start = placed(asked, engine);
    engine.first_powered(&names, &asked.question, &|job| asked.slurm.end_of(job), start)
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
        let start = foretold(&asked, engine);
        effects.extend((start != slurm.start_time()).then_some(Effect::StartAt(start)));
        wait_later(&asked, engine, start, has_good, &mut effects)
    } else {
        slurm.in_backfill() && wait_alone(&asked, engine, &gone, &mut effects)
    };
    (if held { Opinion::Refused(Reason::BetterGpus) } else { Opinion::AsSlurmSays }, effects)
}

/// Decides for a job with several instances of `one` shards each: its GPUs carry the same number of them on all nodes.
fn decide_alike<S: Slurm>(
    asked: &Asked<'_, S>,
    one: u32,
    engine: &Engine,
    effects: &mut Vec<Effect>,
) -> Result<Decided, Veto> {
    let mut most = u32::MAX;
    loop {
        let mut devices = Vec::new();
        let question = asked.question.clone().spread(Spread::Alike { most });
        let decided = decide(&Asked { question, ..*asked }, engine, &mut devices);
        let decided = decided.map_err(|veto| Veto { by_itself: most == u32::MAX, ..veto })?;
        let parts =
            || devices.iter().filter_map(Effect::devices).flat_map(|d| &d.devices).map(|(_, parts)| *parts);
        let (least, largest) = (parts().min().unwrap_or(1), parts().max().unwrap_or(1));
        if least == largest {
            let nodes = devices.iter().filter_map(Effect::devices).count() as u64;
            let per_node = u64::from(one) * u64::from(asked.want.request.instances);
            let counted = Counted { per_gpu: u64::from(one) * least, per_node, of_job: per_node * nodes };
            effects.extend(devices.into_iter().map(|effect| effect.counted(counted)));
            return Ok(decided);
        }
        // Fewer in each round, so this ends.
        most = u32::try_from(least).unwrap_or(1);
    }
}

/// Decides, and has Slurm count the seats of a job of GPU tasks on each of a node's GPUs that it may use. Slurm has looked for one
/// GPU, and what the job asks per node stays: 22.05 counts that on every GPU.
fn decide_counted<S: Slurm>(
    asked: &Asked<'_, S>,
    engine: &Engine,
    effects: &mut Vec<Effect>,
) -> Result<Decided, Veto> {
    let mut devices = Vec::new();
    let decided = match decide(asked, engine, &mut devices) {
        Ok(decided) => decided,
        Err(veto) => {
            effects.extend(devices);
            return Err(veto);
        }
    };
    let is_of_seats = |(_, given): &(String, NodeGrant)| matches!(given.grant, Grant::Tasks(_));
    let per_gpu = match &asked.view.gres[..] {
        [entry] if asked.want.kind == GresKind::Shard => entry.per_node,
        _ => 0,
    };
    let gpus = |effect: &Effect| effect.devices().map_or(0, |on_node| on_node.devices.len() as u64);
    let most = devices.iter().map(gpus).max().unwrap_or(0);
    if per_gpu == 0 || most < 2 || !decided.placement.nodes.iter().all(is_of_seats) {
        effects.extend(devices);
        return Ok(decided);
    }
    let of_job = per_gpu.saturating_mul(devices.iter().map(gpus).sum());
    effects.extend(devices.into_iter().map(|effect| {
        let per_node = per_gpu.saturating_mul(gpus(&effect));
        effect.counted(Counted { per_gpu, per_node, of_job })
    }));
    Ok(decided)
}

/// A decision for each of the nodes that Slurm chose. `effects` gets their devices.
fn decide<S: Slurm>(
    asked: &Asked<'_, S>,
    engine: &Engine,
    effects: &mut Vec<Effect>,
) -> Result<Decided, Veto> {
    let mut grants = Vec::new();
    let mut whys: Vec<(f64, String)> = Vec::new();
    let mut matched = Vec::new();
    let mut poorest: Option<(String, f64)> = None;
    for node in asked.nodes {
        let Some(slurms) = asked.slurm.choice(node).filter(|c| !c.chosen().is_empty()) else { continue };
        let ends = asked.ends(engine, &node.name);
        let question = engine.with_next(asked.question.clone(), &node.name, &ends);
        let Some(placed) = place(engine, question, asked.want, &slurms) else { continue };
        let Placed { grant, devices, entries, why, gbps, matched: how } = placed?;
        effects.push(Effect::Devices(Devices { node: node.index, devices, entries, shards: None }));
        // Nobody is told of a bandwidth between the GPUs of a set that has one GPU.
        let told = how.as_ref().and_then(SetSummary::gbps).map_or(f64::INFINITY, |_| gbps);
        whys.push((told, why));
        if poorest.as_ref().is_none_or(|(_, least)| gbps < *least) {
            poorest = Some((node.name.to_string(), gbps));
        }
        matched.extend(how.map(|m| (node.name.to_string(), m)));
        grants.push((node.name.to_string(), NodeGrant::from(grant)));
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

/// Replaces Slurm's list of jobs to preempt by the fewest that make room, and the least important of these. `victims` has
/// the candidates, least important first. `None`: preemption would not help.
///
/// cons_tres takes the candidates in an order until there is room, and then every one of them that is on the nodes. It
/// counts shards where we have slices: its list can be too long, and too short.
fn preempt<S: Slurm>(
    asked: &Asked<'_, S>,
    engine: &Engine,
    victims: &[JobId],
    effects: &mut Vec<Effect>,
) -> Option<HashSet<JobId>> {
    let listed = asked.slurm.preempted()?;
    // Whose end frees nothing stays where Slurm has put it.
    let ending: HashSet<JobId> = asked.slurm.victims().into_iter().collect();
    let victims: Vec<JobId> = victims.iter().copied().filter(|id| ending.contains(id)).collect();
    let rank: HashMap<JobId, usize> = victims.iter().zip(0..).map(|(id, rank)| (*id, rank)).collect();
    let slurms: Vec<JobId> = victims.iter().copied().filter(|id| listed.contains(id)).collect();
    let (ours, other): (Vec<&NodeView>, Vec<&NodeView>) =
        asked.nodes.iter().partition(|n| engine.node(*n).is_some());
    // Of nodes that are not managed, only Slurm knows who is in the way.
    let mut going = if other.is_empty() { Vec::new() } else { slurms.clone() };
    let mut slurms_suffice = true;
    let lacks = asked.slurm.lacks(&ours);
    for (node, lacks) in ours.into_iter().zip(lacks) {
        let question = asked.question_on(node);
        slurms_suffice &= engine.fits_once_gone(&node.name, &question, &slurms);
        let gone: HashSet<JobId> = going.iter().copied().collect();
        let more: Vec<JobId> = victims.iter().copied().filter(|id| !gone.contains(id)).collect();
        let rooms = asked.slurm.rooms(node, &more);
        let candidates = more.iter().zip(&rooms).map(|(job, has)| Victim { job: *job, has: *has });
        let held: HashSet<JobId> = engine.jobs_on(&node.name).into_iter().collect();
        let here = |v: &Victim| v.has != HostResources::default() || held.contains(&v.job);
        let candidates: Vec<Victim> = candidates.filter(here).collect();
        let lacks = lacking(asked.slurm, (node, lacks), &slurms, &going);
        going.extend(engine.least_victims(&node.name, &question, &going, &candidates, lacks)?);
    }
    if slurms_suffice && (going.is_empty() || going.len() > slurms.len()) {
        // It needs them for something that we do not see.
        return (!listed.is_empty()).then_some(listed);
    }
    going.sort_by_key(|id| rank.get(id));
    let mut gone: HashSet<JobId> = listed.into_iter().filter(|id| !rank.contains_key(id)).collect();
    gone.extend(&going);
    effects.push(Effect::Preempt(going));
    Some(gone)
}

/// Room that the job lacks on a node in addition to GPUs, at most what Slurm's own list gives back: that is enough for Slurm.
fn lacking(
    slurm: &impl Slurm,
    (node, lacks): (&NodeView, HostResources),
    slurms: &[JobId],
    going: &[JobId],
) -> HostResources {
    let sum = |jobs: &[JobId]| {
        let rooms = slurm.rooms(node, jobs);
        rooms.iter().fold(HostResources::default(), |a, b| HostResources {
            cores: a.cores + b.cores,
            memory_mib: a.memory_mib + b.memory_mib,
        })
    };
    let (most, given) = (sum(slurms), sum(going));
    HostResources {
        cores: lacks.cores.min(most.cores).saturating_sub(given.cores),
        memory_mib: lacks.memory_mib.min(most.memory_mib).saturating_sub(given.memory_mib),
    }
}
