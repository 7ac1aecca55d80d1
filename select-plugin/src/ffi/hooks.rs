//! What happens in each hook, round the call of Slurm's own plugin.
//!
//! | hook | before | after |
//! |---|---|---|
//! | `job_test` | nodes without a legal placement go from the bitmap | devices and placement on success, or a refusal |
//! | `select_nodeinfo_set` | | the placement is stamped with the job's id and becomes part of the state |
//! | `job_fini` | | what the job held is given back; its node stays COMPLETING until the epilog is over |
//! | `job_resized` | | the same on one node |
//! | `reconfigure` | a new `tessera.toml` is read | the state is rebuilt from the running jobs |
//!
//! Slurm's own plugin is asked exactly once in each, outside every guard.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use placement::JobId;
use placement::wire::{JobPlacement, PLACEMENT_ENV, encode_placement, parse_placement};
use plugin_rt::{guard_ok, log, set_job};

use super::host::Host;
use super::{ptr as pointer, read, sys, write};
use crate::commit::{Veto, place, unmanaged};
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

/// What this plugin remembers between hooks.
#[derive(Default)]
struct State {
    /// `None`: it only forwards, because there is no configuration or the layout does not fit.
    engine: Option<Engine>,
    /// The last decision, until its job starts or another test comes. Its job is known by its record's address: an
    /// array task gets its id only when it starts.
    pending: Option<(usize, JobPlacement)>,
    layout_checked: bool,
    /// The state knows all running jobs. Before that, the layouts from before a restart must stay readable.
    rebuilt: bool,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<State>> {
    // A panic while it was held has been logged by the guard; every change of the state is a single step.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets or replaces the configuration; the state is empty until it is rebuilt.
pub(super) fn configure(engine: Option<Engine>) {
    *lock() = Some(State { engine, ..State::default() });
}

/// Runs `body` if the plugin places jobs in this process and its view of the structs is the process's.
fn with<T>(
    job: *mut sys::job_record_t,
    body: impl FnOnce(&mut State, &Host, &mut sys::job_record_t) -> T,
) -> Option<T> {
    let mut state = lock();
    let state = state.as_mut().filter(|s| s.engine.is_some())?;
    let host = Host::get()?;
    // SAFETY: select.h: the record of a live job, under slurmctld's job write lock.
    let job = unsafe { job.as_mut() }?;
    set_job(job.job_id);
    if !layout_fits(state, host, job) {
        state.engine = None;
        return None;
    }
    Some(body(state, host, job))
}

/// Every job is checked; the node table once.
fn layout_fits(state: &mut State, host: &Host, job: &sys::job_record_t) -> bool {
    let nodes = state.layout_checked || read::node_layout_fits(host);
    state.layout_checked = true;
    let fits = nodes && read::job_layout_fits(job);
    if !fits {
        log::error(
            "select plugin: slurmctld's structs are not those this plugin was built with; GPU placement is off until \
             it is rebuilt from the source of this very Slurm",
        );
    }
    fits
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
        let nodes = read::nodes(host, test.bitmap);
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
        let nodes = read::nodes(host, test.bitmap);
        match (mode, view.want()) {
            (Mode::TestOnly, _) => None,
            (Mode::WillRun, Some(want)) => {
                if !preempts(test, host) {
                    start_later(state.engine.as_ref()?, host, job, &view, &want, &nodes);
                }
                None
            }
            (Mode::RunNow { .. }, Some(want)) if !preempts(test, host) => {
                let outcome = decide_nodes(state.engine.as_ref()?, host, job, &view, &want, &nodes);
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

/// Writes the placement into the job's SPANK environment, which Slurm saves and hands to prolog and epilog.
fn stamp(state: &State, host: &Host, job: &mut sys::job_record_t, placement: &JobPlacement) {
    let Some(engine) = state.engine.as_ref().filter(|_| !placement.nodes.is_empty()) else {
        return write::placement(host, job, None);
    };
    let text = encode_placement(placement, &|node, gpu| engine.model_of(node, gpu));
    write::placement(host, job, Some(&text));
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

/// After Slurm has allocated a job, or found it running at its start.
pub(super) fn allocated(job: *mut sys::job_record_t) {
    with(job, |state, host, job| {
        // At its start slurmctld calls this for finished jobs as well.
        if !runs(job) {
            return;
        }
        let pending = state.pending.take().filter(|(address, _)| *address == std::ptr::from_ref(job).addr());
        let placement = match pending {
            Some((_, mut placement)) => {
                placement.job = JobId(job.job_id);
                stamp(state, host, job, &placement);
                Some(placement)
            }
            None => saved(state, job),
        };
        take_over(state, host, job, placement);
    });
}

/// Whether a job holds what it was given; a suspended one keeps its GPUs.
fn runs(job: &sys::job_record_t) -> bool {
    let base = job.job_state & sys::JOB_STATE_BASE;
    base == sys::JOB_RUNNING || base == sys::JOB_SUSPENDED
}

/// The placement a job was started with, from its record; not one that was copied from another job.
fn saved(state: &State, job: &sys::job_record_t) -> Option<JobPlacement> {
    let engine = state.engine.as_ref()?;
    let text = read::spank_env(job, PLACEMENT_ENV)?;
    match parse_placement(&text, &|node, gpu| engine.model_of(node, gpu)) {
        Ok(placement) => Some(placement).filter(|p| p.job == JobId(job.job_id)),
        Err(e) => {
            log::error(format_args!("job {}: its placement is unreadable: {e}", job.job_id));
            None
        }
    }
}

/// Makes what a running job has part of the state and shows it.
fn take_over(state: &mut State, host: &Host, job: &sys::job_record_t, placement: Option<JobPlacement>) {
    let Some(engine) = state.engine.as_mut() else { return };
    let view = read::job(host, job);
    let allocated = read::allocated(host, job);
    let placement = unmanaged(engine, JobId(job.job_id), placement, &allocated);
    if placement.nodes.is_empty() {
        return;
    }
    for refused in engine.commit(view.uid, &placement) {
        log::error(format_args!("job {}: {refused}", job.job_id));
    }
    if state.rebuilt {
        let names: Vec<String> = placement.nodes.into_iter().map(|(name, _)| name).collect();
        publish(engine, host, &names);
    }
}

/// Shows the layouts of these nodes.
fn publish(engine: &Engine, host: &Host, names: &[String]) {
    let mut changed = false;
    for (name, node) in read::named_nodes(host) {
        if let Some(text) = engine.layout(&name).filter(|_| names.contains(&name)) {
            write::extra(host, node, &text);
            changed = true;
        }
    }
    if changed {
        host.nodes_changed();
    }
}

/// After a job has begun to end.
pub(super) fn ended(job: *mut sys::job_record_t) {
    with(job, |state, host, job| {
        let Some(engine) = state.engine.as_mut() else { return };
        let names = engine.release(JobId(job.job_id));
        if !names.is_empty() {
            publish(engine, host, &names);
        }
    });
}

/// After a running job has lost a node.
pub(super) fn lost_node(job: *mut sys::job_record_t, node: *mut sys::node_record_t) {
    with(job, |state, host, job| {
        let Some(engine) = state.engine.as_mut() else { return };
        // SAFETY: select.h: a live node record.
        let Some(node) = (unsafe { pointer::struct_at(node) }) else { return };
        // SAFETY: null or NUL-terminated.
        let Some(name) = (unsafe { pointer::text(node.name) }) else { return };
        if engine.release_on(JobId(job.job_id), &name) {
            publish(engine, host, &[name]);
        }
    });
}

/// Rebuilds the state from the running jobs, after a new configuration.
pub(super) fn rebuild() {
    let Some(host) = Host::get() else { return };
    for job in host.jobs() {
        with(job, |state, host, job| {
            if runs(job) {
                let placement = saved(state, job);
                take_over(state, host, job, placement);
            }
        });
    }
    let mut state = lock();
    let Some(state) = state.as_mut() else { return };
    let Some(engine) = state.engine.as_mut() else { return };
    state.rebuilt = true;
    for (name, node) in read::named_nodes(host) {
        if let Some(published) = read::extra(node) {
            engine.remember_idle(&name, &published);
        }
    }
    let names: Vec<String> = engine.node_names().map(str::to_owned).collect();
    publish(engine, host, &names);
}

/// Whether either job has GPUs here: their allocations cannot be merged.
pub(super) fn may_merge(a: *mut sys::job_record_t, b: *mut sys::job_record_t) -> bool {
    let holds =
        |job| with(job, |state, _, job| state.engine.as_ref().is_some_and(|e| e.holds(JobId(job.job_id))));
    !holds(a).unwrap_or(false) && !holds(b).unwrap_or(false)
}
