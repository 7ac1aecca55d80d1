//! Tessera's reasons for a job to wait: better GPUs than it could have now, and slices that are not free. A function that answers
//! `bool` says whether it refuses the start.

use protocol::{CommentBody, Request, sick};
use std::collections::HashSet;

use geometry::{JobId, counted};
use protocol::Turn;
use protocol::wire::plain_why;

use super::chosen::{Asked, Decided};
use crate::effect::Effect;
use crate::engine::{Engine, SEARCHES};
use crate::patience::Patient;
use crate::slurm::Slurm;
use crate::view::NodeView;

/// A start now on GPUs that the job rather lets pass. If it takes them, `decided` says why.
pub(super) fn wait_now<S: Slurm>(
    asked: &Asked<'_, S>,
    engine: &mut Engine,
    decided: &mut Decided,
    effects: &mut Vec<Effect>,
) -> bool {
    let Some((node, gbps)) = decided.poorest.as_ref() else { return false };
    let Some(wait) = asked.question.wait().filter(|wait| !wait.is_met_by(*gbps)) else { return false };
    let held = Patient::of(&asked.question, asked.view)
        .is_some_and(|patient| hold(asked, engine, patient, (node, *gbps), effects));
    if !held {
        let best = engine.best_ever(asked.slurm.within_reach(), &asked.question);
        let taken = wait.why_taken(best, &asked.view.comment);
        decided.why = plain_why(&format!("{}, {taken}", decided.why));
    }
    held
}

/// A start that needs the end of these jobs first. Nothing ends them for GPUs that the job would then let pass.
pub(super) fn wait_alone<S: Slurm>(
    asked: &Asked<'_, S>,
    engine: &mut Engine,
    gone: &HashSet<JobId>,
    effects: &mut Vec<Effect>,
) -> bool {
    let Some(patient) = Patient::of(&asked.question, asked.view) else { return false };
    let poorest = patient.poorest_without(engine, &asked.question, asked.nodes, gone);
    poorest.is_some_and(|poorest| hold(asked, engine, patient, poorest, effects))
}

/// A start at `start`, seconds since 1970, where Slurm asks when that could be.
pub(super) fn wait_later<S: Slurm>(
    asked: &Asked<'_, S>,
    engine: &mut Engine,
    start: i64,
    has_good: bool,
    effects: &mut Vec<Effect>,
) -> bool {
    let Some(patient) = Patient::of(&asked.question, asked.view) else { return false };
    let now = i64::try_from(asked.view.now).unwrap_or(i64::MAX);
    if asked.slurm.in_backfill() {
        if has_good || start > now {
            return false;
        }
        let poorest = patient.poorest(engine, &asked.question, asked.nodes);
        return poorest.is_some_and(|poorest| hold(asked, engine, patient, poorest, effects));
    }
    let best = engine.best_ever(asked.slurm.within_reach(), &asked.question);
    if has_good && start <= now || !patient.wait.is_met_by(best) {
        return false;
    }
    let mut searches = SEARCHES;
    let starts = asked.nodes.iter().filter_map(|n| {
        let (node, ends) = (engine.node(n)?, asked.ends(engine, &n.name));
        Some(patient.start(node, &asked.question, ends, start, &mut searches))
    });
    let better = starts.fold(start, i64::max);
    effects.extend((better != start).then_some(Effect::StartAt(better)));
    false
}

/// Refuses a start on a node's poor set and says in the job's AdminComment until when it waits.
fn hold<S: Slurm>(
    asked: &Asked<'_, S>,
    engine: &mut Engine,
    patient: Patient,
    (node, gbps): (&str, f64),
    effects: &mut Vec<Effect>,
) -> bool {
    let best = engine.best_ever(asked.slurm.within_reach(), &asked.question);
    let Turn::Wait { until, begins } = patient.turn(gbps, best, asked.view) else { return false };
    if begins {
        let waits = CommentBody::Waits(patient.wait.begins(until, gbps, node));
        effects.extend(Effect::comment(&asked.view.comment, waits, asked.view.comment.asks.clone()));
    }
    // Or the end of the wait would be no news to backfill, which alone starts some jobs.
    effects.push(Effect::JobsChanged);
    effects.extend(Effect::refusal());
    true
}

/// Message to a job for which the GPUs have no place. The text is the same at every test.
pub(super) fn for_slices(request: &Request) -> CommentBody {
    CommentBody::Slices(format!("no place is free for {}", request.in_words()))
}

/// Says why the node's unhealthy GPUs get no new jobs, without a time: the text is the same at every test.
fn sick_words(engine: &Engine, node: &str) -> Option<String> {
    let all = sick::parse(engine.sick(node))?;
    let first = all.first()?;
    let words = format!("GPU {} of {node} gets no new jobs: {}", first.gpu.0, first.why);
    Some(match all.len() {
        1 => words,
        n => format!("{words} ({} more)", counted(n - 1, "GPU")),
    })
}

/// Message to a job whose nodes do not load Tessera, have another file, or have unhealthy GPUs: the first, and how many others
/// there are. A job that insists on nodes is told of these.
pub(super) fn for_nodes(engine: &Engine, nodes: &[NodeView]) -> Option<CommentBody> {
    let insists = nodes.iter().any(|node| node.required);
    let names = nodes.iter().filter(|node| node.required || !insists).map(|node| &*node.name);
    let (away, here): (Vec<&str>, Vec<&str>) = names.partition(|name| engine.is_away(*name));
    let away = away.iter().filter_map(|name| engine.standing(name)?.why_not(name));
    let mut all = away.chain(here.iter().filter_map(|name| sick_words(engine, name)));
    let (first, more) = (all.next()?, all.count());
    Some(CommentBody::Nodes(match more {
        0 => first,
        more => format!("{first} ({} more)", counted(more, "node")),
    }))
}
