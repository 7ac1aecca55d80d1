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
    use std::ffi::{CStr, CString, c_char, c_void};

    use plugin_rt::{log, symbol};
    use protocol::slices::{LICENSE, names_slices, with_slices};

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
        let (Some((validate, destroy)), Ok(line)) = (functions(), CString::new(after.as_str())) else {
            return log::error("select plugin: this slurmctld lacks the functions that count licenses");
        };
        // SAFETY: slurmctld.h: the counts are the job's own, one for each TRES, or null.
        let list = unsafe { validated((validate, destroy), &line, job.tres_req_cnt) };
        let Some(list) = list else {
            return log::error(format_args!("job {}: Slurm does not take the licenses {after}", job.job_id));
        };
        let old: *mut List = job.license_list.cast();
        job.license_list = list.cast();
        if !old.is_null() {
            // SAFETY: slurmctld.h: the job's own list, which frees its elements; nothing else points to it.
            unsafe { destroy(old) };
        }
        // SAFETY: slurmctld.h: null or a string that Slurm allocated.
        unsafe { host.heap.replace(&mut job.licenses, &after) };
    }

    /// Slurm's list of these licenses, null for none, and `counts` as they ask. `None`: Slurm does not take them.
    ///
    /// # Safety
    ///
    /// The functions are slurmctld's; `counts` has an element for each TRES, or is null.
    unsafe fn validated(
        (validate, destroy): (Validate, Destroy),
        line: &CStr,
        counts: *mut u64,
    ) -> Option<*mut List> {
        let list_of = |line: &CStr| {
            let mut valid = false;
            // SAFETY: licenses.h: copies the text; the counts are the caller's promise. It takes its own locks, none of which
            // slurmctld holds in this plugin's hooks.
            let list = unsafe { validate(line.as_ptr().cast_mut(), false, true, counts, &raw mut valid) };
            valid.then_some(list)
        };
        if !line.to_str().is_ok_and(names_slices) {
            // 22.05 writes the counts of those that a list names, and leaves what an earlier test has counted.
            let none = CString::new(format!("{LICENSE}:0")).ok().and_then(|none| list_of(&none));
            if let Some(none) = none.filter(|list| !list.is_null()) {
                // SAFETY: list.h: a list of our own, which frees its elements.
                unsafe { destroy(none) };
            }
        }
        list_of(line)
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use protocol::slices::slices_in;

        /// As 22.05 does it, with the slices as the only TRES.
        unsafe extern "C" fn validate(
            line: *mut c_char,
            _: bool,
            _: bool,
            counts: *mut u64,
            valid: *mut bool,
        ) -> *mut List {
            // SAFETY: the test's own.
            let line = unsafe { text(line) }.unwrap_or_default();
            // SAFETY: as above.
            unsafe { *valid = true };
            if names_slices(&line) {
                // SAFETY: as above.
                unsafe { *counts = slices_in(&line) };
            }
            std::ptr::null_mut()
        }

        unsafe extern "C" fn destroy(_: *mut List) {}

        #[test]
        fn a_job_without_slices_is_not_held_to_those_of_an_earlier_test() {
            let counted = |line: &CStr| {
                let mut counts = 14;
                // SAFETY: the functions above, and one count.
                let list = unsafe { validated((validate, destroy), line, &raw mut counts) };
                assert!(list.is_some());
                counts
            };
            assert_eq!([c"", c"matlab:2", c"matlab:2,slice:7"].map(counted), [0, 0, 7]);
        }
    }
}
