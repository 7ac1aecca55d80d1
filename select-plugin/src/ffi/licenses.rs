//! A job's compute slices in Slurm's accounts: the license `slice`.
//!
//! slurmctld counts a job's licenses when it starts, right after the hook that tells this plugin of the allocation
//! (`allocate_nodes` and `job_set_alloc_tres`, src/slurmctld/node_scheduler.c). It holds the job to its limits with
//! `tres_req_cnt`, right after the test (`select_nodes`). So both hooks write.

use admission::slices::names_slices;
use plugin_rt::log;
use slurmctld_rt::text;

use super::host::{Host, conf_string};
use super::records::{Conf, Job};
use super::version;

/// Tells whether slices are among a job's licenses: from an earlier start or test.
pub(super) fn has_slices(job: Job) -> bool {
    // SAFETY: slurmctld.h: null or NUL-terminated.
    version::has_one_list_of_licenses()
        && unsafe { text(job.licenses()) }.is_some_and(|all| names_slices(&all))
}

/// Gives a job that is about to start this many slices among its licenses, where slurm.conf has that license.
pub(super) fn count_slices(host: &Host, job: Job, count: u64) {
    if conf_string(Conf::licenses).is_some_and(|all| names_slices(&all)) {
        write(host, job, count);
    }
}

slurmctld_rt::found_symbols! {
    /// slurmctld's functions for lists of licenses.
    struct Functions {
        // `license_validate(char *licenses, bool validate_configured, bool validate_existing, uint64_t *tres_req_cnt, bool *valid)`
        fn validate = c"license_validate", "src/slurmctld/licenses.h, from 22.05 to 24.11":
            fn(*mut std::ffi::c_char, bool, bool, *mut u64, *mut bool) -> *mut slurmctld_rt::List;
        fn destroy = c"slurm_list_destroy", "src/common/list.h": fn(*mut slurmctld_rt::List);
    }
}

fn write(host: &Host, job: Job, count: u64) {
    if !version::has_one_list_of_licenses() {
        static SAID: std::sync::Once = std::sync::Once::new();
        return SAID.call_once(|| {
            log::error("select plugin: slices are counted up to Slurm 24.11 only: see docs/billing.md")
        });
    }
    // SAFETY: slurmctld.h: null or NUL-terminated.
    let before = unsafe { text(job.licenses()) }.unwrap_or_default();
    let Some(change) = crate::slurm_rules::LicenseChange::to_slices(&before, count) else { return };
    let Ok(functions) = Functions::look_up() else {
        return log::error("select plugin: this slurmctld lacks the functions that count licenses");
    };
    let destroy = |list: *mut slurmctld_rt::List| {
        if !list.is_null() {
            // SAFETY: list.h: a list that frees its elements, and that nothing points to any more.
            unsafe { (functions.destroy)(list) };
        }
    };
    let mut made = None;
    for list in change.to_count {
        made.into_iter().for_each(destroy);
        let mut valid = false;
        // SAFETY: licenses.h: copies the text; the counts are the job's own, one for each TRES, or null. It takes its own locks,
        // none of which slurmctld holds in this plugin's hooks.
        let new = unsafe {
            (functions.validate)(list.as_ptr().cast_mut(), false, true, job.tres_req_cnt(), &raw mut valid)
        };
        made = valid.then_some(new);
    }
    let Some(made) = made else {
        return log::error(format_args!(
            "job {}: Slurm does not take the licenses {}",
            job.job_id(),
            change.after
        ));
    };
    destroy(job.license_list());
    // SAFETY: a field of a live job, under slurmctld's job write lock.
    unsafe { job.license_list_at().write(made) };
    // SAFETY: slurmctld.h: null or a string that Slurm allocated.
    unsafe { host.heap.replace(job.licenses_at(), &change.after) };
}
