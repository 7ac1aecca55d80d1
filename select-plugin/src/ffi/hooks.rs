//! What happens in each hook, round the call of Slurm's own plugin.
//!
//! | hook | before | after |
//! |---|---|---|
//! | `job_test` | nodes without a legal placement go from the bitmap | devices and placement on success, or a refusal |
//! | `job_begin` | a job with a part of a device needs a decision of ours to start | |
//! | `select_nodeinfo_set` | | the placement is stamped with the job's id and becomes part of the state |
//! | `job_fini` | | what the job held is given back; its node stays COMPLETING until the epilog is over |
//! | `job_resized` | | the same on one node |
//! | `reconfigure` | a new `tessera.toml` is read | the state is rebuilt from the running jobs |
//!
//! Slurm's own plugin is asked exactly once in each, outside every guard.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use placement::planned::{Started, encode_started};
use placement::wire::{
    JobPlacement, PLACEMENT_ENV, REQUEST_ENV, WHY_ENV, encode_placement, encode_request, parse_placement,
    parse_request,
};
use placement::{JobId, Request};
use plugin_rt::{log, set_job};

use super::host::Host;
use super::whole_node::in_order;
use super::{ptr as pointer, read, sys, write};
use crate::commit::unmanaged;
use crate::engine::Engine;
use crate::view::GresKind;

/// What this plugin remembers between hooks.
#[derive(Default)]
pub(super) struct State {
    /// `None`: it only forwards, because there is no configuration or the layout does not fit.
    pub(super) engine: Option<Engine>,
    /// The last decision, until its job starts or another test comes.
    pub(super) pending: Option<Pending>,
    /// Jobs whose last test with preemption had nodes held back and did not succeed.
    pub(super) widen: HashSet<JobId>,
    /// Jobs whose last test kept them to the node that their plan names and did not succeed.
    pub(super) off_plan: HashSet<JobId>,
    /// Jobs whose last test kept them to nodes with the GPUs that they wait for and did not succeed.
    pub(super) off_good: HashSet<JobId>,
    /// There is no `tessera.toml`: only what an earlier one has left is taken away.
    unconfigured: bool,
    layout_checked: bool,
    /// The state knows all running jobs. Before that, the layouts from before a restart must stay readable.
    rebuilt: bool,
}

/// A decision whose job has not started yet.
pub(super) struct Pending {
    /// Whose: the address of its record, because an array task gets its id only when it starts.
    pub(super) address: usize,
    /// What it gets.
    pub(super) placement: JobPlacement,
    /// Begin and end that its plan predicts, seconds since 1970.
    pub(super) planned: Option<(u64, u64)>,
}

impl Pending {
    fn is_for(&self, job: &sys::job_record_t) -> bool {
        self.address == std::ptr::from_ref(job).addr()
    }
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<State>> {
    // A panic while it was held has been logged by the guard; every change of the state is a single step.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets or replaces the configuration; the state is empty until it is rebuilt.
pub(super) fn configure(engine: Option<Engine>) {
    *lock() = Some(State { unconfigured: engine.is_none(), engine, ..State::default() });
}

/// Without a configuration, takes away what an earlier one placed: a requeued job, or the rest of an array, would have
/// it carried out on whatever GPUs Slurm now gives it.
pub(super) fn forget_placement(job: *mut sys::job_record_t) {
    let mut state = lock();
    let Some(state) = state.as_mut().filter(|s| s.unconfigured) else { return };
    let Some(host) = Host::get() else { return };
    // SAFETY: select.h: the record of a live job, under slurmctld's job write lock.
    let Some(job) = (unsafe { job.as_mut() }) else { return };
    set_job(job.job_id);
    if !layout_fits(state, host, job) {
        state.unconfigured = false;
    } else if read::spank_env(job, PLACEMENT_ENV).is_some() {
        write::placement(host, job, None);
    }
}

/// Runs `body` if the plugin places jobs in this process and its view of the structs is the process's.
pub(super) fn with<T>(
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

/// Writes the placement into the job's SPANK environment, which Slurm saves and hands to prolog and epilog.
pub(super) fn stamp(state: &State, host: &Host, job: &mut sys::job_record_t, placement: &JobPlacement) {
    let Some(engine) = state.engine.as_ref().filter(|_| !placement.nodes.is_empty()) else {
        return write::placement(host, job, None);
    };
    let text = encode_placement(placement, &|node, gpu| engine.model_of(node, gpu));
    write::placement(host, job, Some(&text));
}

/// Shows what a job got, and why, in its AdminComment.
fn explain(
    state: &State,
    host: &Host,
    job: &mut sys::job_record_t,
    placement: &JobPlacement,
    planned: Option<(u64, u64)>,
) {
    let Some(engine) = state.engine.as_ref().filter(|_| !placement.nodes.is_empty()) else { return };
    let Some(why) = read::spank_env(job, WHY_ENV) else { return };
    let text = encode_placement(placement, &|node, gpu| engine.model_of(node, gpu));
    // Without the version and the job's own number.
    let got = text.split_once(';').map_or("", |(_, nodes)| nodes).to_owned();
    let request = read::spank_env(job, REQUEST_ENV);
    let request = request.and_then(|text| parse_request(&text).ok()).filter(Request::is_moldable);
    let job_profile = request.as_ref().and_then(|r| r.job_profile.clone());
    let started = encode_started(&Started { got, job_profile, planned, why });
    // A requeued job can be planned again.
    let asks = request.map(|r| encode_request(&r));
    write::comment(host, job, &started, asks.as_deref());
}

/// Whether a job may start: one that gets a part of a device only by a decision of ours.
///
/// Preemption by suspension starts a job after a test whose success meant "once these are out of the way"; the
/// suspended ones keep their slices.
pub(super) fn may_begin(job: *mut sys::job_record_t) -> bool {
    with(job, |state, host, job| {
        let decided = state.pending.as_ref().is_some_and(|p| p.is_for(job));
        decided || read::job(host, job).want().is_none_or(|w| w.kind == GresKind::Gpu)
    })
    .unwrap_or(true)
}

/// After Slurm has allocated a job, or found it running at its start.
pub(super) fn allocated(job: *mut sys::job_record_t) {
    with(job, |state, host, job| {
        // At its start slurmctld calls this for finished jobs as well.
        if !runs(job) {
            return;
        }
        let pending = state.pending.take().filter(|p| p.is_for(job));
        let placement = match pending {
            Some(Pending { mut placement, planned, .. }) => {
                placement.job = JobId(job.job_id);
                stamp(state, host, job, &placement);
                explain(state, host, job, &placement, planned);
                Some(placement)
            }
            None => saved(state, job).or_else(|| started_whole(state, host, job)),
        };
        take_over(state, host, job, placement);
    });
}

/// What a job gets that has every GPU of its nodes and starts now, not one that ran before slurmctld did.
fn started_whole(state: &State, host: &Host, job: &mut sys::job_record_t) -> Option<JobPlacement> {
    if !state.rebuilt {
        return None;
    }
    let placement = in_order(state, host, job)?;
    stamp(state, host, job, &placement);
    explain(state, host, job, &placement, None);
    Some(placement)
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
    for name in names {
        let Some(node) = host.node_by_name(name) else { continue };
        if let Some(text) = engine.layout(name) {
            changed |= write::extra(host, node, &text);
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
        if !engine.release_on(JobId(job.job_id), &name) {
            return;
        }
        publish(engine, host, std::slice::from_ref(&name));
        // Or the node would be the job's again after a restart of slurmctld.
        if let Some(mut placement) = saved(state, job) {
            placement.nodes.retain(|(n, _)| *n != name);
            stamp(state, host, job, &placement);
        }
    });
}

/// Rebuilds the state from the running jobs, after a new configuration.
pub(super) fn rebuild() {
    let Some(host) = Host::get() else { return };
    step_aside(host);
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

/// Leaves the nodes to Slurm on which a GPU's number there need not be the one here, or on which jobs take nothing from
/// each other in Slurm's accounts. Jobs then wait, or run elsewhere, for a reason that nothing but this line tells.
fn step_aside(host: &Host) {
    let mut state = lock();
    let Some(engine) = state.as_mut().and_then(|s| s.engine.as_mut()) else { return };
    let mut aside = Vec::new();
    for (name, node) in read::named_nodes(host) {
        let Some(ours) = engine.described_gpus(&name) else { continue };
        let slurms = read::configured(host, node);
        let why = match slurms.gpus {
            _ if slurms.no_consume => "its GPUs are no_consume in slurm.conf".to_owned(),
            Some(gpus) if gpus != ours => format!("{gpus} GPUs in slurm.conf, {ours} in tessera.toml"),
            _ => continue,
        };
        engine.step_aside(&name);
        if read::extra(node).is_some_and(|text| !text.is_empty()) && write::extra(host, node, "") {
            host.nodes_changed();
        }
        aside.push(format!("{name}: {why}"));
    }
    if let Some(first) = aside.first() {
        log::error(format_args!(
            "select plugin: {} nodes are left to Slurm alone, such as {first}: see `tessera doctor`",
            aside.len()
        ));
    }
}

/// Whether either job has GPUs here: their allocations cannot be merged.
pub(super) fn may_merge(a: *mut sys::job_record_t, b: *mut sys::job_record_t) -> bool {
    let holds =
        |job| with(job, |state, _, job| state.engine.as_ref().is_some_and(|e| e.holds(JobId(job.job_id))));
    !holds(a).unwrap_or(false) && !holds(b).unwrap_or(false)
}
