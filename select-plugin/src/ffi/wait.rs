//! Starts that are put off: until slices are free that Slurm's shards are not, or until there are GPUs that a sensitive
//! job waits for.

use std::collections::HashSet;
use std::ffi::c_int;

use placement::JobId;
use placement::patience::Turn;
use placement::wire::plain_why;

use super::host::Host;
use super::test::{Asked, Decided, REFUSED};
use super::{ptr as pointer, read, sys, write};
use crate::engine::{Engine, SEARCHES};
use crate::narrow::first_fit;
use crate::patience::Patient;
use crate::view::{JobView, NodeView, Want};

/// A start that Slurm thinks possible, on GPUs that the job rather lets pass; `None`: it takes them, and is told why.
pub(super) fn wait_now(
    engine: &mut Engine,
    host: &Host,
    job: &mut sys::job_record_t,
    asked: &Asked<'_>,
    decided: &mut Decided,
) -> Option<c_int> {
    let (node, gbps) = decided.poorest.as_ref()?;
    let wait = asked.question.wait().filter(|wait| !wait.is_met_by(*gbps))?;
    let held = Patient::of(&asked.question, asked.view)
        .and_then(|patient| hold(engine, host, job, asked, patient, (node, *gbps)));
    if held.is_none() {
        let best = engine.best_ever(&read::within_reach(host, job), &asked.question);
        let taken = wait.why_taken(best, &asked.view.comment);
        decided.why = plain_why(&format!("{}, {taken}", decided.why));
    }
    held
}

/// A start that needs the end of these jobs first, whom nothing is to end for GPUs that the job would then let pass.
pub(super) fn wait_alone(
    engine: &mut Engine,
    host: &Host,
    job: &mut sys::job_record_t,
    asked: &Asked<'_>,
    nodes: &[NodeView],
    gone: &HashSet<JobId>,
) -> Option<c_int> {
    let patient = Patient::of(&asked.question, asked.view)?;
    let poorest = patient.poorest_without(engine, &asked.question, nodes, gone)?;
    hold(engine, host, job, asked, patient, poorest)
}

/// A start that Slurm thinks possible where it asks when that could be.
pub(super) fn wait_later(
    engine: &mut Engine,
    host: &Host,
    job: &mut sys::job_record_t,
    asked: &Asked<'_>,
    nodes: &[NodeView],
    has_good: bool,
) -> Option<c_int> {
    let patient = Patient::of(&asked.question, asked.view)?;
    let now = i64::try_from(asked.view.now).unwrap_or(i64::MAX);
    if read::in_backfill(job) {
        if has_good || job.start_time > now {
            return None;
        }
        let (node, gbps) = patient.poorest(engine, &asked.question, nodes)?;
        return hold(engine, host, job, asked, patient, (node, gbps));
    }
    let best = engine.best_ever(&read::within_reach(host, job), &asked.question);
    if has_good && job.start_time <= now || !patient.wait.is_met_by(best) {
        return None;
    }
    let mut searches = SEARCHES;
    let starts = nodes.iter().filter_map(|n| {
        let (node, ends) = (engine.node(&n.name)?, ends(engine, host, &n.name));
        Some(patient.start(node, &asked.question, ends, job.start_time, &mut searches))
    });
    job.start_time = starts.fold(job.start_time, i64::max);
    None
}

/// Refuses a start on a node's poor set and keeps until when the job waits; `None`: it takes the set.
fn hold(
    engine: &mut Engine,
    host: &Host,
    job: &mut sys::job_record_t,
    asked: &Asked<'_>,
    patient: Patient,
    (node, gbps): (&str, f64),
) -> Option<c_int> {
    let best = engine.best_ever(&read::within_reach(host, job), &asked.question);
    let Turn::Wait { until, begins } = patient.turn(gbps, best, asked.view) else { return None };
    if begins {
        write::comment(host, job, &patient.wait.comment(until, gbps, node), None);
    }
    // Or the end of the wait would be no news to backfill, which alone starts some jobs.
    host.jobs_changed();
    write::placement(host, job, None);
    write::refuse(host, job);
    Some(REFUSED)
}

/// When the jobs on a node end, seconds since 1970.
pub(super) fn ends(engine: &Engine, host: &Host, node: &str) -> Vec<(i64, JobId)> {
    let end_of = |id: JobId| {
        // SAFETY: src/slurmctld/slurmctld.h: finds a job under the job lock.
        let record = unsafe { (host.find_job_record)(id.0) };
        // SAFETY: null or live.
        unsafe { pointer::struct_at(record) }.map_or(0, |r| r.end_time)
    };
    engine.jobs_on(node).into_iter().map(|id| (end_of(id), id)).collect()
}

/// Moves a start that Slurm thinks possible to when enough jobs are over, for our slices are not its shards.
pub(super) fn start_later(
    engine: &Engine,
    host: &Host,
    job: &mut sys::job_record_t,
    view: &JobView,
    want: &Want,
    nodes: &[NodeView],
) {
    let question = engine.question(view.id, view.uid, want);
    let starts = nodes.iter().filter_map(|n| engine.node(&n.name).map(|node| (n, node)));
    let latest = starts
        .filter_map(|(n, node)| first_fit(node, &question, ends(engine, host, &n.name), job.start_time));
    job.start_time = latest.fold(job.start_time, i64::max);
}
