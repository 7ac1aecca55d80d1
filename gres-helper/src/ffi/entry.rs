//! The symbols that slurmctld looks up.

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use decision_counts::decisions::Ask;
use plugin_rt::{guard_ok, log, set_job, text};
use shared_pages::{decisions, refusals_by_day};
use slurm_numbers as numbers;
use slurmctld_rt::in_slurmctld;

use super::host::Host;
use super::records::{Desc, Job};
use super::{desc, fit, version};
use crate::answer::{Answer, OnRecord};
use crate::components::Components;
use crate::het;
use crate::modify::{Asker, modify as judge_change, refusal_noted};
use crate::request_change::settle;
use crate::site::Site;
use crate::submission::Slurm as _;
use crate::submit::submit as judge_submission;

plugin_rt::exported_text!(plugin_name, "Tessera: GPU requests to GRES");
plugin_rt::exported_text!(plugin_type, "job_submit/tessera");
plugin_rt::exported_text!(tessera_version, env!("CARGO_PKG_VERSION"));

const SUCCESS: c_int = 0;
const ERROR: c_int = -1;
const INVALID_GRES: c_int = numbers::ESLURM_INVALID_GRES;

static SITE: Mutex<Option<Site>> = Mutex::new(None);

/// Components of the heterogeneous job that is submitted.
static COMPONENTS: Mutex<Components> = Mutex::new(Components::new());

fn this_thread() -> u64 {
    // SAFETY: pthread_self(3): any thread may call it, and it never fails.
    unsafe { libc::pthread_self() }
}

fn lock() -> MutexGuard<'static, Option<Site>> {
    // A panic while it was held has been logged; the configuration is replaced as a whole.
    SITE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the configuration for submissions, read again if slurmctld has read its own since.
fn fresh<'a>(host: &Host, site: &'a mut Option<Site>) -> &'a mut Site {
    let site = site.get_or_insert_default();
    if let Some((path, state, read_at)) = host.configuration() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        site.refresh(&path, state.as_deref(), read_at, now.try_into().unwrap_or(i64::MAX));
    }
    site
}

/// Never an error: a slurmctld that cannot load one of its job submit plugins does not start.
#[unsafe(no_mangle)]
extern "C" fn init() -> c_int {
    plugin_rt::install_panic_hook();
    guard_ok("init", (), || {
        let inside = in_slurmctld(version::slurm().since(25, 5));
        if inside == Ok(true)
            && let Err(why) = fit::learn()
        {
            return fit::say(&why);
        }
        let host = inside.and_then(|inside| {
            if inside { Host::found().as_ref().map(Some).map_err(Clone::clone) } else { Ok(None) }
        });
        match host {
            Ok(None) => {}
            Ok(Some(host)) => {
                if let Some((_, Some(state), _)) = host.configuration() {
                    decisions::begin(&state);
                    refusals_by_day::begin(&state);
                }
                fresh(host, &mut lock());
            }
            Err(missing) => log::error(format_args!(
                "job submit plugin: {}: requests for GPUs by Tessera's options are refused, all other jobs are left to Slurm",
                missing.built_for(version::slurm().0)
            )),
        }
    });
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn job_submit(job: *mut c_void, _uid: u32, message: *mut *mut c_char) -> c_int {
    if !guard_ok("job_submit", false, || fit::reads(job)) {
        return SUCCESS;
    }
    // SAFETY: src/slurmctld/job_submit.h: a live description that the plugin may change.
    let Some(job) = (unsafe { Desc::at(job) }) else { return SUCCESS };
    // If this plugin fails, a request that nobody checked must not reach the scheduler; a job without one starts as if
    // Tessera were not there.
    let failed = if job.spank_job_env_size() == 0 { SUCCESS } else { ERROR };
    guard_ok("job_submit", failed, || submit(job, message))
}

/// Counts an answer that began then.
fn count(ask: Ask, answer: &Answer, began: Instant) {
    if let Some(counts) = answer.counts() {
        decisions::count(ask, counts, began.elapsed());
        if ask == Ask::Submit {
            refusals_by_day::count(counts);
        }
    }
}

fn submit(job: Desc, message: *mut *mut c_char) -> c_int {
    let began = Instant::now();
    let Some(host) = Host::get() else {
        let job = desc::described(job);
        return if job.request.is_some() || job.bad_env.is_some() || job.harm.is_some() {
            INVALID_GRES
        } else {
            SUCCESS
        };
    };
    let mut site = lock();
    let site = fresh(host, &mut site);
    site.compare_partitions(&|name| host.partition(name).is_some());
    site.learn_user(job.user_id(), || host.user_name(job.user_id()));
    let mut described = desc::described(job);
    described.learnt = site.learnt(&described);
    let rules = site.rules();
    let alone = judge_submission(&described, rules, host);
    let mut components = COMPONENTS.lock().unwrap_or_else(PoisonError::into_inner);
    let answer = het::together(&described, this_thread(), alone, rules, host, &mut components);
    desc::apply(host, job, &answer.effects);
    count(Ask::Submit, &answer, began);
    if let Some(note) = &answer.note {
        tell(host, message, note);
    }
    let Some(why) = answer.refused else { return SUCCESS };
    log::verbose(format_args!("job_submit: refused: {why}"));
    tell(host, message, &why.text);
    INVALID_GRES
}

/// Leaves a message for the user, where there is a place for one, after what other plugins have left there.
fn tell(host: &Host, message: *mut *mut c_char, what: &str) {
    // SAFETY: job_submit.h: null, or a place for a string that Slurm frees.
    if let Some(message) = unsafe { message.as_mut() } {
        // SAFETY: as above: null, or such a string.
        let before = unsafe { text(*message) }.filter(|before| !before.is_empty());
        let line = format!("tessera: {what}");
        let all = before.map_or(line.clone(), |before| format!("{before}\n{line}"));
        // SAFETY: as above.
        unsafe { host.heap.replace(message, &all) };
    }
}

/// A change to a job. Before 23.02 slurmctld gives no place for a message to the user, and leaves that of the last argument as it was.
#[unsafe(no_mangle)]
unsafe extern "C" fn job_modify(
    change: *mut c_void,
    job: *mut c_void,
    uid: u32,
    message: *mut *mut c_char,
) -> c_int {
    let message = if version::has_message_of_changes() { message } else { std::ptr::null_mut() };
    let answer = guard_ok("job_modify", ERROR, || {
        let began = Instant::now();
        if !fit::reads(change) || !fit::reads_job(job) {
            return SUCCESS;
        }
        // SAFETY: src/slurmctld/job_submit.h: a live description that the plugin may change.
        let (Some(host), Some(change)) = (Host::get(), (unsafe { Desc::at(change) })) else { return SUCCESS };
        // SAFETY: as above: the job's record, under the job lock.
        let Some(job) = (unsafe { Job::at(job) }) else { return SUCCESS };
        set_job(job.job_id());
        let mut site = lock();
        let rules = fresh(host, &mut site).rules();
        let described = desc::described(change);
        let mut recorded = desc::recorded(host, job, described.new_request.is_some());
        // What Slurm has made of the last change shows now.
        desc::write(host, job, &settle(&mut recorded));
        let asker = asker(uid, recorded.user);
        let answer = judge_change(&described, &recorded, asker, rules, host);
        desc::apply(host, change, &answer.effects);
        desc::write(host, job, &answer.on_record);
        count(Ask::Change, &answer, began);
        let Some(why) = answer.refused else { return SUCCESS };
        log::info(format_args!("job {}: change refused: {why}", job.job_id()));
        if message.is_null() {
            let comment = refusal_noted(&described, &recorded, asker, &why.text);
            desc::write(host, job, &comment.map(OnRecord::Comment).into_iter().collect::<Vec<_>>());
        } else {
            tell(host, message, &why.text);
        }
        INVALID_GRES
    });
    // Without accounting, 24.11 takes whatever errno is next for its answer to a change of partition: `_update_job`.
    // SAFETY: errno(3): the place of this thread's own.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *errno = 0 };
    answer
}

/// The user with this id, as seen from a job of `owner`.
fn asker(uid: u32, owner: u32) -> Asker {
    match uid {
        0 => Asker::Root,
        uid if uid == owner => Asker::Owner,
        _ => Asker::Other,
    }
}
