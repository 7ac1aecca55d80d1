//! A job's compute slices in Slurm's accounts: the license `slice`.
//!
//! slurmctld counts a job's licenses when it starts, right after the hook that tells this plugin of the allocation
//! (`allocate_nodes` and `job_set_alloc_tres`, src/slurmctld/node_scheduler.c). It holds the job to its limits with
//! `tres_req_cnt`, right after the test (`select_nodes`). So both hooks write.

#[cfg(not(slurm_since = "25.05"))]
pub(super) use counted::{count_slices, has_slices};

#[cfg(slurm_since = "25.05")]
pub(super) use not_counted::{count_slices, has_slices};

/// From 25.05 Slurm keeps required and allocated licenses apart. That was not tried yet, so nothing is written.
#[cfg(slurm_since = "25.05")]
mod not_counted {
    use std::sync::Once;

    use plugin_rt::log;
    use protocol::slices::names_slices;

    use crate::ffi::host::{Host, conf_string};
    use crate::ffi::sys;

    pub(in crate::ffi) fn has_slices(_: &sys::job_record_t) -> bool {
        false
    }

    pub(in crate::ffi) fn count_slices(_: &Host, _: &mut sys::job_record_t, _: u64) {
        static SAID: Once = Once::new();
        if conf_string(|c| c.licenses).is_some_and(|all| names_slices(&all)) {
            SAID.call_once(|| {
                log::error("select plugin: slices are counted up to Slurm 24.11 only: see docs/billing.md")
            });
        }
    }
}

#[cfg(not(slurm_since = "25.05"))]
mod counted {
    use std::ffi::{CString, c_char};

    use plugin_rt::log;
    use protocol::slices::{names_slices, with_slices};
    use slurmctld_rt::{List, text};

    use crate::ffi::host::{Host, conf_string};
    use crate::ffi::sys;
    use crate::slurm_rules::lists_to_count;

    slurmctld_rt::found_symbols! {
        /// slurmctld's functions for lists of licenses.
        struct Functions {
            // `license_validate(char *licenses, bool validate_configured, bool validate_existing, uint64_t *tres_req_cnt, bool *valid)`
            fn validate = c"license_validate", "src/slurmctld/licenses.h, from 22.05 to 24.11":
                fn(*mut c_char, bool, bool, *mut u64, *mut bool) -> *mut List;
            fn destroy = c"slurm_list_destroy", "src/common/list.h": fn(*mut List);
        }
    }

    /// Tells whether slices are among a job's licenses: from an earlier start or test.
    pub(in crate::ffi) fn has_slices(job: &sys::job_record_t) -> bool {
        // SAFETY: slurmctld.h: null or NUL-terminated.
        unsafe { text(job.licenses) }.is_some_and(|all| names_slices(&all))
    }

    /// Gives a job that is about to start this many slices among its licenses, where slurm.conf has that license.
    pub(in crate::ffi) fn count_slices(host: &Host, job: &mut sys::job_record_t, count: u64) {
        if !conf_string(|c| c.licenses).is_some_and(|all| names_slices(&all)) {
            return;
        }
        // SAFETY: slurmctld.h: null or NUL-terminated.
        let before = unsafe { text(job.licenses) }.unwrap_or_default();
        let Some(after) = with_slices(&before, count).filter(|after| *after != before) else { return };
        let (Ok(functions), Ok::<Vec<CString>, _>(lines)) =
            (Functions::look_up(), lists_to_count(&after).into_iter().map(CString::new).collect())
        else {
            return log::error("select plugin: this slurmctld lacks the functions that count licenses");
        };
        let mut list: Option<*mut List> = None;
        for line in lines {
            if let Some(earlier) = list.filter(|list| !list.is_null()) {
                // SAFETY: list.h: a list of our own, which frees its elements.
                unsafe { (functions.destroy)(earlier) };
            }
            let mut valid = false;
            // SAFETY: licenses.h: copies the text; the counts are the job's own, one for each TRES, or null. It takes its own locks,
            // none of which slurmctld holds in this plugin's hooks.
            let made = unsafe {
                (functions.validate)(line.as_ptr().cast_mut(), false, true, job.tres_req_cnt, &raw mut valid)
            };
            list = valid.then_some(made);
        }
        let Some(list) = list else {
            return log::error(format_args!("job {}: Slurm does not take the licenses {after}", job.job_id));
        };
        let old: *mut List = job.license_list.cast();
        job.license_list = list.cast();
        if !old.is_null() {
            // SAFETY: slurmctld.h: the job's own list, which frees its elements; nothing else points to it.
            unsafe { (functions.destroy)(old) };
        }
        // SAFETY: slurmctld.h: null or a string that Slurm allocated.
        unsafe { host.heap.replace(&mut job.licenses, &after) };
    }
}
