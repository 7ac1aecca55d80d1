//! What each hook reads and writes, round the call of Slurm's own plugin. What it means: [`crate::job_test`] and
//! [`crate::lifecycle_hooks`].
//!
//! | hook | before | after |
//! |---|---|---|
//! | `job_test` | nodes without a legal placement go from the bitmap | devices and placement on success, or a refusal |
//! | `job_begin` | a job with a part of a device needs a decision of ours to start | |
//! | `select_nodeinfo_set` | | the placement is stamped with the job's id and becomes part of the state |
//! | `step_start` | of a job whose shards are on several GPUs, the step gets all of them | |
//! | `job_fini` | | what the job held is given back; its node stays COMPLETING until the epilog is over (before 23.11: see `mend`) |
//! | `select_nodeinfo_set_all` | jobs whose epilogs are over are no longer shown, and what nodes say of themselves is judged | |
//! | `job_resized` | | the same on one node |
//! | `reconfigure` | a new `tessera.toml` is read | the state is rebuilt from the running jobs |
//!
//! Slurm's own plugin is asked exactly once in each, outside every guard.

use std::sync::{Mutex, MutexGuard, PoisonError};

use decision_counts::decisions::Placing;
use geometry::JobId;
use plugin_rt::set_job;
use plugin_rt::slurmctld::{struct_at, text, version};
use plugin_rt::spank_env::BadEnv;
use protocol::layout::ConfigInForce;
use protocol::wire::{PLACEMENT_ENV, WHY_ENV};
use shared_pages::decisions;

use super::host::Host;
#[cfg(not(slurm_since = "23.11"))]
use super::mend;
#[cfg(not(slurm_since = "25.05"))]
use super::steps;
use super::{apply, read, sys};
use crate::effect::Effect;
use crate::engine::Engine;
use crate::lifecycle_hooks::{self, NodeGpus, Running};
use crate::memory::{Boots, Memory};
use crate::reminder::Reminder;
use crate::site::Reading;
use crate::structs::{Structs, Verdict, complaint};

/// State that this plugin remembers between hooks.
#[derive(Default)]
struct State {
    /// `None`: it only forwards, because there is no configuration or the structs do not fit.
    memory: Option<Memory>,
    /// There is no `tessera.toml`: only what an earlier one has left is taken away.
    unconfigured: bool,
    structs: Structs,
    /// Says again what keeps the plugin from its work.
    reminder: Reminder,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<State>> {
    // A panic while it was held has been logged by the guard; every change of the state is a single step.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets or replaces the configuration; the state is empty until it is rebuilt.
pub(super) fn configure(reading: Reading) {
    let engine = match reading {
        Reading::New(engine) => Some(*engine),
        Reading::Missing => None,
        // What is in memory is that version, with the state it has.
        Reading::Bad(kept) => match lock().as_mut().and_then(|state| state.memory.as_mut()) {
            Some(memory) => return memory.engine.is_last_good(),
            None => Some(*kept),
        },
    };
    decisions::say_placing(match engine.as_ref().map(Engine::version) {
        None => Placing::NoFile,
        Some(ConfigInForce::Bad) => Placing::BadFile,
        Some(_) => Placing::On,
    });
    let unconfigured = engine.is_none();
    *lock() = Some(State { memory: engine.map(Memory::new), unconfigured, ..State::default() });
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
    if structs_fit(state, host, job) && read::spank_env(job, PLACEMENT_ENV).is_some() {
        apply::on_job(host, job, &[Effect::Placement(None)]);
    }
}

/// Runs `body` if the plugin places jobs in this process and its view of the structs is the process's.
pub(super) fn with<T>(
    job: *mut sys::job_record_t,
    body: impl FnOnce(&mut Memory, &Host, &mut sys::job_record_t) -> T,
) -> Option<T> {
    let mut state = lock();
    let state = state.as_mut()?;
    let host = Host::get()?;
    if state.structs.differ() {
        state.reminder.say(host.now(), &other_structs);
        return None;
    }
    state.memory.as_ref()?;
    // SAFETY: select.h: the record of a live job, under slurmctld's job write lock.
    let job = unsafe { job.as_mut() }?;
    set_job(job.job_id);
    if !structs_fit(state, host, job) {
        return None;
    }
    Some(body(state.memory.as_mut()?, host, job))
}

/// Tells whether this job's record is as it is known here; see [`Structs`].
fn structs_fit(state: &mut State, host: &Host, job: &sys::job_record_t) -> bool {
    let memory = &mut state.memory;
    let ours = || {
        let memory = memory.take();
        memory.iter().flat_map(|m| m.engine.node_names()).map(str::to_owned).collect()
    };
    let verdict = state.structs.judge(read::job_layout_fits(job), || read::node_layout_fits(host), ours);
    if verdict == Verdict::Differ {
        decisions::say_placing(Placing::OtherSlurm);
        state.reminder.say(host.now(), &other_structs);
    }
    verdict == Verdict::Usable
}

fn other_structs() -> String {
    complaint(&version(sys::SLURM_VERSION_NUMBER))
}

/// Tells whether a job may start.
pub(super) fn may_begin(job: *mut sys::job_record_t) -> bool {
    let checked = with(job, |memory, host, job| {
        read::check_env(job).map_err(|why| (why, job.job_id))?;
        Ok(memory.has_decided(read::record(job))
            || lifecycle_hooks::may_begin_undecided(&read::job(host, job)))
    });
    match checked {
        None => true,
        Some(Ok(may)) => may,
        Some(Err((why, id))) => {
            say_held_back(id, &why);
            false
        }
    }
}

/// Says which job does not start because of its environment.
fn say_held_back(job: u32, why: &BadEnv) {
    let say = || format!("select plugin: job {job} does not start, because it would drain its nodes: {why}");
    if let (Some(state), Some(host)) = (lock().as_mut(), Host::get()) {
        state.reminder.say(host.now(), &say);
    }
}

/// A job that holds something.
fn running(host: &Host, job: &sys::job_record_t) -> Running {
    Running {
        record: read::record(job),
        view: read::job(host, job),
        allocated: read::allocated(host, job),
        placement: read::spank_env(job, PLACEMENT_ENV),
        why: read::spank_env(job, WHY_ENV),
    }
}

/// After Slurm has allocated a job, or found it running at its start.
pub(super) fn allocated(job: *mut sys::job_record_t) {
    with(job, |memory, host, job| {
        // At its start slurmctld calls this for finished jobs as well.
        if read::runs(job) {
            // Before the job's own instances are among those that are there.
            nodes_have_booted(memory, host);
            nodes_have_spoken(memory, host);
            let (effects, layouts) = lifecycle_hooks::allocated(memory, &running(host, job));
            apply::on_job(host, job, &effects);
            apply::layouts(host, &layouts);
        }
    });
}

/// A step has its devices, and its credential is not made yet.
#[cfg(not(slurm_since = "25.05"))]
pub(super) fn step_starts(step: *mut sys::step_record_t) {
    // SAFETY: select.h: a live step, under slurmctld's job write lock.
    let Some(step) = (unsafe { step.as_ref() }) else { return };
    with(step.job_ptr, |_, host, job| steps::widen(host, job, step));
}

/// After a job has begun to end.
pub(super) fn ended(job: *mut sys::job_record_t) {
    with(job, |memory, host, job| {
        #[cfg(not(slurm_since = "23.11"))]
        mend::nodes_of(host, job);
        apply::layouts(host, &lifecycle_hooks::ended(memory, JobId(job.job_id)));
    });
}

/// Before nodes are shown: epilogs may have ended and nodes booted, of which no other hook tells.
pub(super) fn nodes_are_shown() {
    let Some(host) = Host::get() else { return };
    show_off(host);
    with_memory(|memory| {
        nodes_have_booted(memory, host);
        nodes_have_spoken(memory, host);
        apply::layouts(host, &lifecycle_hooks::epilogs_over(memory, || read::completing(host)));
    });
}

/// Lets nodes show that placement is off, where at least the structs of nodes are known.
fn show_off(host: &Host) {
    let mut state = lock();
    let Some(nodes) = state.as_mut().and_then(|s| s.structs.take_unshown()) else { return };
    if read::node_layout_fits(host) {
        apply::layouts(host, &lifecycle_hooks::off(nodes));
    }
}

/// Nodes may have booted since they were last looked at.
fn nodes_have_booted(memory: &mut Memory, host: &Host) {
    let booted = lifecycle_hooks::after_boots(memory, read::boots(host), |node| read::name_of(host, node));
    apply::layouts(host, &booted);
}

/// Nodes may have said that they load Tessera, or registered without saying so.
fn nodes_have_spoken(memory: &mut Memory, host: &Host) {
    let (words, layouts) = lifecycle_hooks::heard(memory, read::heard_of_all(host));
    apply::words(host, &words);
    apply::layouts(host, &layouts);
}

/// After a running job has lost a node.
pub(super) fn lost_node(job: *mut sys::job_record_t, node: *mut sys::node_record_t) {
    with(job, |memory, host, job| {
        // SAFETY: select.h: a live node record.
        let Some(node) = (unsafe { struct_at(node) }) else { return };
        #[cfg(not(slurm_since = "23.11"))]
        mend::node(host, node);
        // SAFETY: null or NUL-terminated.
        let Some(name) = (unsafe { text(node.name) }) else { return };
        let placement = read::spank_env(job, PLACEMENT_ENV);
        let (effects, layouts) =
            lifecycle_hooks::lost_node(memory, JobId(job.job_id), &name, placement.as_deref());
        apply::layouts(host, &layouts);
        apply::on_job(host, job, &effects);
    });
}

/// Rebuilds the state from the running jobs, after a new configuration.
pub(super) fn rebuild() {
    let Some(host) = Host::get() else { return };
    with_memory(|memory| {
        let nodes: Vec<NodeGpus> = read::node_gpus(host);
        nodes_have_spoken(memory, host);
        apply::layouts(host, &lifecycle_hooks::leave_unmanaged(&mut memory.engine, &nodes));
        apply::layouts(host, &lifecycle_hooks::without_a_file(&memory.engine, &nodes));
    });
    for job in host.jobs() {
        with(job, |memory, host, job| {
            if read::runs(job) {
                apply::layouts(host, &lifecycle_hooks::found_running(memory, &running(host, job)));
            } else if read::completes(job) {
                lifecycle_hooks::found_ending(memory, &running(host, job));
            }
        });
    }
    with_memory(|memory| {
        memory.boots = Boots::at(host.now(), &read::boots(host).collect::<Vec<_>>());
        apply::layouts(host, &lifecycle_hooks::rebuilt(memory, &read::extras(host)));
    });
}

fn with_memory(body: impl FnOnce(&mut Memory)) {
    if let Some(memory) = lock().as_mut().and_then(|s| s.memory.as_mut()) {
        body(memory);
    }
}

/// Tells whether the allocations of two jobs can be merged: not if either has GPUs here.
pub(super) fn may_merge(a: *mut sys::job_record_t, b: *mut sys::job_record_t) -> bool {
    let holds = |job| with(job, |memory, _, job| memory.engine.holds(JobId(job.job_id)));
    !holds(a).unwrap_or(false) && !holds(b).unwrap_or(false)
}
