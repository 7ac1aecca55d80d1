//! The symbols slurmctld looks up.

use std::ffi::{c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use placement::wire::{REQUEST_ENV, encode_request};
use plugin_rt::{guard_ok, log, set_job, text};

use super::host::Host;
use super::{desc, sys};
use crate::admit::{self, Verdict};
use crate::site::Site;
use crate::{modify, plan};

plugin_rt::exported_text!(plugin_name, "Tessera: GPU requests to GRES");
plugin_rt::exported_text!(plugin_type, "job_submit/tessera");

/// The Slurm that the structs were read from: the loader refuses any other.
#[unsafe(no_mangle)]
static plugin_version: u32 = sys::SLURM_VERSION_NUMBER;

const SUCCESS: c_int = 0;
const ERROR: c_int = -1;
#[expect(clippy::cast_possible_wrap, reason = "an error number of some thousand")]
const INVALID_GRES: c_int = sys::TESSERA_INVALID_GRES as c_int;

static SITE: Mutex<Option<Site>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Site>> {
    // A panic while it was held has been logged; the configuration is replaced as a whole.
    SITE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The configuration, read anew if slurmctld has read its own since; false with it: it is bad.
fn refresh(host: &Host, site: &mut Site) -> bool {
    host.configuration().is_none_or(|(path, read_at)| site.refresh(&path, read_at))
}

#[unsafe(no_mangle)]
extern "C" fn init() -> c_int {
    plugin_rt::install_panic_hook();
    guard_ok("init", ERROR, || {
        let Some(host) = Host::get() else { return SUCCESS };
        if refresh(host, lock().get_or_insert_default()) { SUCCESS } else { ERROR }
    })
}

#[unsafe(no_mangle)]
extern "C" fn fini() -> c_int {
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn job_submit(
    job: *mut sys::job_desc_msg_t,
    _uid: u32,
    message: *mut *mut c_char,
) -> c_int {
    // If this plugin fails, the job is refused: a request that nobody checked must not reach the scheduler.
    guard_ok("job_submit", ERROR, || submit(job, message))
}

fn submit(job: *mut sys::job_desc_msg_t, message: *mut *mut c_char) -> c_int {
    // SAFETY: src/slurmctld/job_submit.h: a live description that the plugin may change.
    let (Some(host), Some(job)) = (Host::get(), (unsafe { job.as_mut() })) else { return SUCCESS };
    if job.spank_job_env_size == 0 {
        return SUCCESS;
    }
    let mut site = lock();
    let site = site.get_or_insert_default();
    if !refresh(host, site) {
        log::error("job submit plugin: the configuration read before stays in force");
    }
    match admit::judge(&desc::submission(host, job), site.config()) {
        Verdict::Untouched => desc::rewrite_env(host, job, None),
        Verdict::Accepted { request, add } => {
            let wire = encode_request(&request);
            desc::rewrite_env(host, job, Some(&wire));
            if request.is_moldable() {
                desc::show_request(host, job, &wire);
            }
            if let Some((name, count)) = add {
                desc::add_gres(host, job, name, count);
            }
        }
        Verdict::Refused(why) => {
            log::verbose(format_args!("job_submit: refused: {why}"));
            tell(host, message, &why);
            return INVALID_GRES;
        }
    }
    SUCCESS
}

/// Leaves a message for the user, where there is a place for one.
fn tell(host: &Host, message: *mut *mut c_char, why: &str) {
    // SAFETY: job_submit.h: null, or a place for a string that Slurm frees.
    if let Some(message) = unsafe { message.as_mut() } {
        host.replace(message, &format!("tessera: {why}"));
    }
}

/// The whole of `job_modify`, whose prototype depends on the version.
pub(super) fn modify(
    change: *mut sys::job_desc_msg_t,
    job: *mut sys::job_record_t,
    uid: u32,
    message: *mut *mut c_char,
) -> c_int {
    guard_ok("job_modify", ERROR, || {
        // SAFETY: src/slurmctld/job_submit.h: a live description that the plugin may change.
        let (Some(host), Some(change)) = (Host::get(), (unsafe { change.as_mut() })) else { return SUCCESS };
        // SAFETY: as above: the job's record, under the job lock.
        let Some(job) = (unsafe { job.as_ref() }).filter(|j| j.magic == sys::JOB_MAGIC) else {
            return SUCCESS;
        };
        set_job(job.job_id);
        desc::rewrite_env(host, change, None);
        // SAFETY: slurmctld.h: `spank_job_env` has `spank_job_env_size` elements.
        let request = unsafe { desc::spank_env(job.spank_job_env, job.spank_job_env_size, REQUEST_ENV) };
        // SAFETY: null or NUL-terminated.
        let partition = unsafe { text(change.partition) };
        // SAFETY: null or NUL-terminated.
        let account = unsafe { text(job.account) };
        let mut site = lock();
        let config = site.get_or_insert_default().config();
        let new = desc::tres(change);
        // Slurm has already refused it from anybody but root, SlurmUser and administrators of the accounts.
        // SAFETY: null or NUL-terminated.
        let comment = unsafe { text(change.admin_comment) };
        let pending = job.job_state & sys::JOB_STATE_BASE == sys::JOB_PENDING;
        // SAFETY: null or NUL-terminated.
        let before = unsafe { text(job.admin_comment) }.unwrap_or_default();
        let planned = comment.map_or(Ok(None), |comment| {
            plan::judge(&desc::changed(host, change, job), &comment, &before, pending, now(), config)
        });
        let verdict = planned.and_then(|planned| {
            modify::judge(
                request.as_deref(),
                &new,
                partition.as_deref(),
                account.as_deref(),
                uid == 0,
                planned,
                config,
            )
            .map(|()| planned)
        });
        match verdict {
            Ok(None) => SUCCESS,
            Ok(Some(shards)) => {
                desc::set_shards(host, change, job, shards);
                desc::keep_request_shown(host, change, request.as_deref());
                SUCCESS
            }
            Err(why) => {
                log::info(format_args!("job {}: change refused: {why}", job.job_id));
                tell(host, message, &why);
                INVALID_GRES
            }
        }
    })
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs())
}
