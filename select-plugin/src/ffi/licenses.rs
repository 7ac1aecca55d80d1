//! A job's compute slices in Slurm's accounts: the license `slice`.
//!
//! slurmctld counts a job's licenses when it starts, right after the hook that tells this plugin of the allocation
//! (`allocate_nodes` and `job_set_alloc_tres`, src/slurmctld/node_scheduler.c). It holds the job to its limits with
//! `tres_req_cnt`, right after the test (`select_nodes`). So both hooks write.

#[cfg(not(slurm_since = "25.05"))]
pub(super) use counted::count_slices;

#[cfg(slurm_since = "25.05")]
pub(super) use not_counted::count_slices;

/// From 25.05 Slurm keeps required and allocated licenses apart. That was not tried yet, so nothing is written.
#[cfg(slurm_since = "25.05")]
mod not_counted {
    use std::sync::Once;

    use plugin_rt::log;
    use protocol::slices::names_slices;

    use crate::ffi::host::{Host, conf_string};
    use crate::ffi::sys;

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
    use std::ffi::{CString, c_char, c_void};

    use plugin_rt::{log, symbol};
    use protocol::slices::{names_slices, with_slices};

    use plugin_rt::slurmctld::text;

    use crate::ffi::host::{Host, List, conf_string};
    use crate::ffi::sys;

    type Validate = unsafe extern "C" fn(*mut c_char, bool, bool, *mut u64, *mut bool) -> *mut List;
    type Destroy = unsafe extern "C" fn(*mut List);

    /// slurmctld's functions for lists of licenses.
    fn functions() -> Option<(Validate, Destroy)> {
        let (validate, destroy) = (symbol(c"license_validate")?, symbol(c"slurm_list_destroy")?);
        // SAFETY: src/slurmctld/licenses.h, from 22.05 to 24.11: `license_validate(char *licenses, bool validate_configured,
        // bool validate_existing, uint64_t *tres_req_cnt, bool *valid)`, which returns a list.
        let validate = unsafe { std::mem::transmute::<*mut c_void, Validate>(validate.as_ptr()) };
        // SAFETY: src/common/list.h: `void list_destroy(List l)`.
        let destroy = unsafe { std::mem::transmute::<*mut c_void, Destroy>(destroy.as_ptr()) };
        Some((validate, destroy))
    }

    /// Gives a job that is about to start this many slices among its licenses, where slurm.conf has that license.
    pub(in crate::ffi) fn count_slices(host: &Host, job: &mut sys::job_record_t, count: u64) {
        if !conf_string(|c| c.licenses).is_some_and(|all| names_slices(&all)) {
            return;
        }
        // SAFETY: slurmctld.h: null or NUL-terminated.
        let before = unsafe { text(job.licenses) }.unwrap_or_default();
        let Some(after) = with_slices(&before, count).filter(|after| *after != before) else { return };
        let (Some((validate, destroy)), Ok(line)) = (functions(), CString::new(after.as_str())) else {
            return log::error("select plugin: this slurmctld lacks the functions that count licenses");
        };
        let mut valid = false;
        let list = line.as_ptr().cast_mut();
        // SAFETY: licenses.h: copies the text; the counts are the job's own, one for each TRES, or null. It takes its own locks,
        // none of which slurmctld holds in this plugin's hooks.
        let list = unsafe { validate(list, false, true, job.tres_req_cnt, &raw mut valid) };
        if !valid {
            return log::error(format_args!("job {}: Slurm does not take the licenses {after}", job.job_id));
        }
        let old: *mut List = job.license_list.cast();
        job.license_list = list.cast();
        if !old.is_null() {
            // SAFETY: slurmctld.h: the job's own list, which frees its elements; nothing else points to it.
            unsafe { destroy(old) };
        }
        // SAFETY: slurmctld.h: null or a string that Slurm allocated.
        unsafe { host.heap.replace(&mut job.licenses, &after) };
    }
}
