//! `job_test`: what happens before and after Slurm's own test.

use std::ffi::{c_int, c_void};

use placement::JobId;
use placement::wire::JobPlacement;
use plugin_rt::{guard_ok, log};

use super::hooks::{State, stamp, with};
use super::host::Host;
use super::{ptr as pointer, read, sys, write};
use crate::commit::{Veto, place};
use crate::engine::Engine;
use crate::narrow::{Mode, first_fit, narrow};
use crate::view::{GresKind, JobView, NodeView, Want};

const SUCCESS: c_int = 0;
const REFUSED: c_int = sys::SLURM_ERROR;

/// The arguments of a test that matter here.
pub(super) struct Test {
    /// Whose.
    pub(super) job: *mut sys::job_record_t,
    /// In: candidates. Out: the choice.
    pub(super) bitmap: *mut sys::bitstr_t,
    /// Least number of nodes.
    pub(super) min_nodes: u32,
    /// What Slurm wants to know, with flags.
    pub(super) mode: u16,
    /// Jobs may be preempted for it.
    pub(super) preempt: bool,
    /// Out: those that would have to be; null, or a place for a list.
    pub(super) preempted: *mut *mut c_void,
}

/// The whole of `select_p_job_test`: `real` is Slurm's own.
pub(super) fn job_test(test: &Test, real: impl FnOnce() -> c_int) -> c_int {
    guard_ok("job_test", (), || before(test));
    let rc = real();
    if rc != SUCCESS {
        return rc;
    }
    // If our part fails now, a job with devices of its own starts as under plain cons_tres. One with a part of a
    // device must not: another job may have its slices.
    let on_failure = if guard_ok("job_test", false, || wants_part(test)) { REFUSED } else { rc };
    guard_ok("job_test", on_failure, || after(test).unwrap_or(rc))
}

fn mode(test: &Test) -> Option<Mode> {
    let base = u32::from(test.mode) & sys::SELECT_MODE_BASE;
    match base {
        sys::SELECT_MODE_RUN_NOW => Some(Mode::RunNow { preempt: test.preempt }),
        sys::SELECT_MODE_TEST_ONLY => Some(Mode::TestOnly),
        sys::SELECT_MODE_WILL_RUN => Some(Mode::WillRun),
        _ => None,
    }
}

fn wants_part(test: &Test) -> bool {
    let run_now = matches!(mode(test), Some(Mode::RunNow { .. }));
    run_now
        && with(test.job, |_, host, job| {
            read::job(host, job).want().is_some_and(|w| w.kind == GresKind::Shard)
        })
        .unwrap_or(false)
}

fn before(test: &Test) {
    let Some(mode) = mode(test) else { return };
    with(test.job, |state, host, job| {
        if matches!(mode, Mode::RunNow { .. }) {
            state.pending = None;
        }
        if !read::concerns_us(job) {
            return;
        }
        let view = read::job(host, job);
        let (Some(want), Some(engine)) = (view.want(), state.engine.as_mut()) else { return };
        let nodes = read::nodes(host, job, test.bitmap);
        let question = engine.question(view.id, view.uid, &want);
        let out = narrow(engine, &question, &want, mode, test.min_nodes, &nodes);
        write::rule_out(host, test.bitmap, &out);
    });
}

/// What follows a success of Slurm's own test; `None`: its answer stands.
fn after(test: &Test) -> Option<c_int> {
    let mode = mode(test)?;
    with(test.job, |state, host, job| {
        if !read::concerns_us(job) {
            return None;
        }
        let view = read::job(host, job);
        let nodes = read::nodes(host, job, test.bitmap);
        match (mode, view.want()) {
            (Mode::TestOnly, _) => None,
            (Mode::WillRun, Some(want)) => {
                if !preempts(test, host) {
                    start_later(state.engine.as_ref()?, host, job, &view, &want, &nodes);
                }
                None
            }
            (Mode::RunNow { .. }, Some(want)) => {
                let outcome = decide_nodes(state.engine.as_ref()?, host, job, &view, &want, &nodes);
                if outcome.is_err() && preempts(test, host) {
                    write::placement(host, job, None);
                    return None;
                }
                Some(settle(state, host, job, outcome))
            }
            (Mode::RunNow { .. }, _) => {
                write::placement(host, job, None);
                None
            }
            (Mode::WillRun, None) => None,
        }
    })
    .flatten()
}

/// Whether Slurm's answer is to preempt jobs first: the test comes again when they are gone.
fn preempts(test: &Test, host: &Host) -> bool {
    // SAFETY: select.h: null, or a place for a list that the test has filled or left null.
    let list = unsafe { pointer::struct_at(test.preempted) }.copied().unwrap_or(std::ptr::null_mut());
    // SAFETY: a live list.
    !list.is_null() && unsafe { (host.list_count)(list) } > 0
}

/// A decision for each of the nodes that Slurm chose, with the device bits replaced.
fn decide_nodes(
    engine: &Engine,
    host: &Host,
    job: &sys::job_record_t,
    view: &JobView,
    want: &Want,
    nodes: &[NodeView],
) -> Result<JobPlacement, Veto> {
    let question = engine.question(view.id, view.uid, want);
    let mut grants = Vec::new();
    for node in nodes {
        let Some(slurm) = read::choice(host, job, view, node).filter(|c| !c.chosen.is_empty()) else {
            continue;
        };
        let Some(placed) = place(engine, question.clone(), want, &slurm) else { continue };
        let placed = placed?;
        write::devices(host, job, node, &placed);
        grants.push((node.name.clone(), placed.grant));
    }
    Ok(JobPlacement { job: view.id, nodes: grants })
}

/// Writes a decision down, or refuses the start.
fn settle(
    state: &mut State,
    host: &Host,
    job: &mut sys::job_record_t,
    outcome: Result<JobPlacement, Veto>,
) -> c_int {
    match outcome {
        Ok(placement) => {
            stamp(state, host, job, &placement);
            state.pending = Some((std::ptr::from_ref(job).addr(), placement));
            SUCCESS
        }
        Err(veto) => {
            log::debug(format_args!("job {}: {veto}", job.job_id));
            write::placement(host, job, None);
            write::refuse(host, job);
            REFUSED
        }
    }
}

/// Moves a start that Slurm thinks possible to when enough jobs are over, for our slices are not its shards.
fn start_later(
    engine: &Engine,
    host: &Host,
    job: &mut sys::job_record_t,
    view: &JobView,
    want: &Want,
    nodes: &[NodeView],
) {
    let question = engine.question(view.id, view.uid, want);
    let end_of = |id: JobId| {
        // SAFETY: src/slurmctld/slurmctld.h: finds a job under the job lock.
        let record = unsafe { (host.find_job_record)(id.0) };
        // SAFETY: null or live.
        unsafe { pointer::struct_at(record) }.map_or(0, |r| r.end_time)
    };
    let starts = nodes.iter().filter_map(|n| engine.node(&n.name).map(|node| (n, node)));
    let latest = starts.filter_map(|(n, node)| {
        let ends: Vec<(i64, JobId)> =
            engine.jobs_on(&n.name).into_iter().map(|id| (end_of(id), id)).collect();
        first_fit(node, &question, ends, job.start_time)
    });
    job.start_time = latest.fold(job.start_time, i64::max);
}
