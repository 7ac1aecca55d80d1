//! Reads and writes of each hook, round the call of Slurm's own plugin. Their meaning: [`crate::job_test`] and
//! [`crate::lifecycle_hooks`].
//!
//! | hook | before | after |
//! |---|---|---|
//! | `job_test` | nodes without a legal placement go from the bitmap | devices and placement on success, or a refusal |
//! | `job_begin` | a job with a part of a device needs a decision of ours to start | |
//! | `select_nodeinfo_set` | | the placement is stamped with the job's id and becomes part of the state |
//! | `step_start` | of a job whose shards are on several GPUs, the step gets all of them | |
//! | `job_fini` | | what the job held is given back; its node stays COMPLETING until the epilog is over (before 23.11: see `accounts::restore_shared_bits`) |
//! | `select_nodeinfo_set_all` | jobs whose epilogs are over are no longer shown, and what nodes say of themselves is judged | |
//! | `job_resized` | | the same on one node |
//! | `reconfigure` | a new `tessera.toml` is read | the state is rebuilt from the running jobs, if the file, the nodes or these jobs have changed |
//!
//! Slurm's own plugin is asked exactly once in each, outside every guard.
//! Slurm's own plugin is asked outside every guard: exactly once in each, but for the time at which a job can start (`super::job_test`).
use geometry::JobId;

use plugin_rt::{Chain, set_job};
use protocol::wire::PLACEMENT_ENV;

use super::{jobs, nodes, resources};
use crate::effect::Effect;
use crate::ffi::host::{Host, name_of};
use crate::ffi::jobs::{check_env, nodes_of, spank_env};
use crate::ffi::records::{Job, Node, Step};
use crate::ffi::{accounts, apply, fit, licenses, version};
use crate::lifecycle_hooks as lifecycle;
use crate::memory::{Boots, Memory};
use crate::seen::{self, RawNode};
use crate::state::{State, lock, say_kept};
use crate::view::{GresKind, JobView};

/// Without a configuration, takes away what an earlier one placed: a requeued job, or the rest of an array, would have
/// it carried out on whatever GPUs Slurm now gives it.
pub(super) fn forget_placement(job: Option<Job>) {
    let mut state = lock();
    let Some(state) = state.as_mut().filter(|state| state.is_unconfigured()) else { return };
    let (Some(host), Some(job)) = (Host::get(), job) else { return };
    if !structs_fit(state, host, job) {
        return;
    }
    set_job(job.job_id());
    if spank_env(job, PLACEMENT_ENV).is_some() {
        apply::on_job(host, job, &[Effect::Placement(None)]);
    }
}

/// Runs `body` if the plugin places jobs in this process and its view of the structs is the process's.
pub(crate) fn with<T>(job: Option<Job>, body: impl FnOnce(&mut Memory, &Host, Job) -> T) -> Option<T> {
    record_fits(job)?.then(|| again(job, body))?
}

/// Tells whether the plugin places jobs and the record is as it is known here; `None` without a job or a Slurm.
fn record_fits(job: Option<Job>) -> Option<bool> {
    let mut state = lock();
    let (state, host) = (state.as_mut()?, Host::get()?);
    Some(job.is_some_and(|job| state.places_jobs(host.now()) && structs_fit(state, host, job)))
}

/// As [`with`], for a record that [`with`] has just found to be as it is known here.
pub(super) fn again<T>(job: Option<Job>, body: impl FnOnce(&mut Memory, &Host, Job) -> T) -> Option<T> {
    let mut state = lock();
    let (memory, host, job) = (state.as_mut()?.memory()?, Host::get()?, job?);
    set_job(job.job_id());
    Some(body(memory, host, job))
}

/// Tells whether this job's record is as it is known here.
fn structs_fit(state: &mut State, host: &Host, job: Job) -> bool {
    let carefully = || {
        fit::job(host, job)
            .and_then(|known| fit::nodes(host).map(|()| known))
            .map_err(|why| Chain(&why).to_string())
    };
    state.fits(host.now(), || jobs::is_marked(job), carefully)
}

/// Tells whether the records of nodes are as they are known here. If they are not, nothing is placed any more.
fn nodes_fit(host: &Host) -> bool {
    let Err(why) = fit::nodes(host) else { return true };
    if let Some(state) = lock().as_mut() {
        state.fits(host.now(), || false, || Err(Chain(&why).to_string()));
    }
    false
}

/// Tells whether a job may start.
pub(crate) fn may_begin(job: Option<Job>) -> bool {
    let checked = with(job, |memory, host, job| {
        check_env(job).map_err(|why| (why, job.job_id()))?;
        Ok(memory.has_decided(jobs::address(job)) || lifecycle::may_begin_undecided(&jobs::view(host, job)))
    });
    match checked {
        None => true,
        Some(Ok(may)) => may,
        Some(Err((why, id))) => {
            if let (Some(state), Some(host)) = (lock().as_mut(), Host::get()) {
                state.say_held_back(host.now(), id, &why);
            }
            false
        }
    }
}

/// After Slurm has allocated a job. At its start slurmctld also calls this for all jobs that it knows, and has the state rebuilt from
/// them a moment later.
pub(crate) fn allocated(job: Option<Job>) {
    if with_memory(|memory| memory.begun) != Some(true) {
        return;
    }
    with(job, |memory, host, job| {
        memory.told_of(JobId(job.job_id()), jobs::runs(job));
        if jobs::runs(job) {
            // Before the job's own instances are among those that are there. Only its nodes: many jobs start on a large site.
            let places = nodes_of(host, job);
            let own = || places.iter().filter_map(|index| nodes::record(host, *index));
            nodes_have_booted(memory, host, own());
            nodes_have_spoken(memory, host, own());
            apply::settle_request(host, job);
            let running = jobs::running(host, job);
            let (effects, layouts) = lifecycle::allocated(memory, &running);
            apply::on_job(host, job, &effects);
            apply::layouts(host, &layouts);
            job_takes_cpus(memory, host, job, &running.view);
        }
    });
}

/// Takes note of the CPUs of a job that runs, and counts it if no test has: tasks of an array get their ids when they start.
fn job_takes_cpus(memory: &mut Memory, host: &Host, job: Job, view: &JobView) {
    let has = resources::cpus_of_job(host, job, |node| memory.learnt.cpus.knows(node));
    if !has.is_empty() && memory.learnt.meets(view.id, 0, |_| true) {
        memory.learnt.arrived(view);
    }
    memory.learnt.cpus.begin(view.id, has);
}

/// A step has its devices, and its credential is not made yet.
pub(crate) fn step_starts(step: Option<Step>) {
    let Some(step) = step else { return };
    with(step.job_ptr(), |_, host, job| accounts::give_step_all_gpus(host, job, step));
}

/// After a job has begun to end.
pub(crate) fn ended(job: Option<Job>) {
    with(job, |memory, host, job| {
        if !version::counts_by_device()
            && accounts::requested(host, job).iter().any(|(kind, _)| *kind == GresKind::Shard)
        {
            let nodes = nodes_of(host, job).into_iter().filter_map(|node| host.node(node));
            nodes.for_each(|node| accounts::restore_shared_bits(host, node));
        }
        memory.learnt.cpus.end(JobId(job.job_id()));
        apply::layouts(host, &lifecycle::ended(memory, JobId(job.job_id())));
    });
}

/// Before nodes are shown: epilogs may have ended and nodes booted, of which no other hook tells.
pub(crate) fn nodes_are_shown() {
    fit::remind();
    let Some(host) = Host::get() else { return };
    if !fit::is_learnt() || !nodes_fit(host) {
        return;
    }
    show_off(host);
    with_memory(|memory| {
        nodes_have_booted(memory, host, nodes::all(host));
        nodes_have_spoken(memory, host, nodes::all(host));
        apply::layouts(host, &lifecycle::epilogs_over(memory, || seen::completing(nodes::all(host))));
        say_kept(memory);
    });
}

/// Lets nodes show that placement is off, where at least the structs of nodes are known.
fn show_off(host: &Host) {
    let mut state = lock();
    let Some(nodes) = state.as_mut().and_then(State::take_unshown) else { return };
    if fit::nodes(host).is_ok() {
        apply::layouts(host, &lifecycle::off(nodes));
    }
}

/// Nodes may have booted since they were last looked at.
fn nodes_have_booted<'a>(memory: &mut Memory, host: &Host, nodes: impl Iterator<Item = RawNode<'a>>) {
    let booted = lifecycle::after_boots(memory, seen::boots(nodes), |node| name_of(host.node(node)?));
    apply::layouts(host, &booted);
}

/// Nodes may have said that they load Tessera, or registered without saying so.
fn nodes_have_spoken<'a>(memory: &mut Memory, host: &Host, nodes: impl Iterator<Item = RawNode<'a>>) {
    let news = memory.listen(nodes);
    let (words, layouts) = lifecycle::heard(memory, news);
    apply::words(host, &words);
    apply::layouts(host, &layouts);
}

/// After a running job has lost a node.
pub(crate) fn lost_node(job: Option<Job>, node: Option<Node>) {
    with(job, |memory, host, job| {
        let Some(node) = node else { return };
        accounts::restore_shared_bits(host, node);
        let Some(name) = name_of(node) else { return };
        if let Some(index) = host.index_of(node) {
            memory.learnt.cpus.lose(JobId(job.job_id()), index);
        }
        let placement = spank_env(job, PLACEMENT_ENV);
        let (effects, layouts) =
            lifecycle::lost_node(memory, JobId(job.job_id()), &name, placement.as_deref());
        apply::layouts(host, &layouts);
        apply::on_job(host, job, &effects);
    });
}

/// Rebuilds the state from the running jobs, at slurmctld's start, after a reconfiguration, or after a change of a partition, of nodes or of
/// `DebugFlags`. `same_file`: `tessera.toml` has not changed. If the nodes and the jobs that run have not either, the state stays as it is.
pub(crate) fn rebuild(same_file: bool) {
    let Some(host) = Host::get() else { return };
    if !fit::is_learnt() || !nodes_fit(host) {
        return;
    }
    let counts = nodes::counts(host);
    if same_file && with_memory(|memory| memory.is_of(&counts, jobs::running_ids(host))) == Some(true) {
        return;
    }
    with_memory(|memory| {
        memory.begin();
        nodes_have_spoken(memory, host, nodes::all(host));
        apply::layouts(host, &lifecycle::leave_unmanaged(&mut memory.engine, &counts));
        apply::layouts(host, &lifecycle::without_a_file(&memory.engine, &counts));
        memory.count(counts);
    });
    // The first one says whether records are as they are known here.
    let known = host.jobs().into_iter().any(|job| record_fits(Some(job)) == Some(true));
    for job in jobs::holders(host).filter(|_| known) {
        with(Some(job), |memory, host, job| {
            if jobs::runs(job) {
                apply::settle_request(host, job);
                let running = jobs::running(host, job);
                apply::layouts(host, &lifecycle::found_running(memory, &running));
                job_takes_cpus(memory, host, job, &running.view);
            } else {
                lifecycle::found_ending(memory, &jobs::running(host, job));
            }
        });
    }
    with_memory(|memory| {
        memory.learnt.rebuilt();
        memory.boots = Boots::at(host.now(), &seen::boots(nodes::all(host)).collect::<Vec<_>>());
        apply::layouts(host, &lifecycle::rebuilt(memory, &seen::extras(nodes::all(host))));
    });
}

fn with_memory<T>(body: impl FnOnce(&mut Memory) -> T) -> Option<T> {
    lock().as_mut().and_then(State::memory).map(body)
}

/// Tells whether the allocations of two jobs can be merged: not if either has GPUs here, or slices, of which slurmctld makes licenses that
/// are never given back (`license_job_merge`, src/slurmctld/licenses.c).
pub(crate) fn may_merge(a: Option<Job>, b: Option<Job>) -> bool {
    let has =
        |memory: &Memory, job: Job| memory.engine.holds(JobId(job.job_id())) || licenses::has_slices(job);
    let holds = |job| with(job, |memory, _, job| has(memory, job));
    !holds(a).unwrap_or(false) && !holds(b).unwrap_or(false)
}
