//! A job's compute slices in Slurm's accounts: the license `slice`.
//!
//! slurmctld counts a job's licenses when it starts, right after the hook that tells this plugin of the allocation
//! (`allocate_nodes` and `job_set_alloc_tres`, src/slurmctld/node_scheduler.c). It holds the job to its limits with
//! `tres_req_cnt`, right after the test (`select_nodes`). So both hooks write. From 25.05 on what a job asks for stays as it is: the test
//! writes `tres_req_cnt` alone, and the start `license_list`, of which slurmctld then makes `licenses_allocated`.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

use plugin_rt::log;
use site_limits::slices::{LICENSE, names_slices, with_slices};
use slurmctld_rt::{LicenseCall, List, item};

use super::host::{Host, conf_string};
use super::records::{Conf, Job, Tres};
use super::version;
use crate::slurm_rules::LicenseChange;

/// Tells whether slices are among a job's licenses: from an earlier start or test, or what it has now.
pub(crate) fn has_slices(job: Job) -> bool {
    [job.licenses(), job.licenses_allocated().flatten()].into_iter().flatten().any(|all| names_slices(&all))
}

/// Tells whether slurmctld would hold a job to slices of its last test, which from 25.05 on are not among its licenses. Only for a test
/// that starts the job: in others a caller may have the accounting's lock.
pub(crate) fn is_held_to_slices(job: Job) -> bool {
    let Some((LicenseCall::Apart | LicenseCall::ApartFuzzy, licenses)) = counting() else { return false };
    // SAFETY: slurmctld.h: null, or one amount for each TRES, under slurmctld's job write lock.
    let count = licenses.place().and_then(|at| unsafe { item(job.tres_req_cnt(), at) });
    count.is_some_and(|count| count > 0)
}

/// Makes slurmctld hold a job to its limits with this many slices, which its test has chosen.
pub(super) fn hold_to_limits(host: &Host, job: Job, count: u64) {
    match counting() {
        Some((LicenseCall::OneList, licenses)) => write(host, job, count, licenses),
        Some((_, licenses)) => {
            let asked = job.licenses().unwrap_or_default();
            let Some(all) = with_slices(&asked, count).and_then(|all| CString::new(all).ok()) else { return };
            if let Some(list) = licenses.list(&all, job) {
                licenses.free(list);
            }
        }
        None => {}
    }
}

/// Gives a job that is about to start this many slices among its licenses, where slurm.conf has that license.
pub(super) fn count_slices(host: &Host, job: Job, count: u64) {
    let Some((call, licenses)) = counting() else { return };
    // What a job has is given back by its list. One that runs keeps it.
    if call == LicenseCall::OneList || job.licenses_allocated().flatten().is_none() {
        write(host, job, count, licenses);
    }
}

slurmctld_rt::found_symbols! {
    /// slurmctld's functions for lists of licenses.
    struct Licenses {
        // `license_validate(licenses, validate_configured, validate_existing, hres, tres_req_cnt, valid, fuzzy_match)`
        fn one_list = c"license_validate", "src/slurmctld/licenses.h, from 22.05 to 24.11":
            fn(*mut c_char, bool, bool, *mut u64, *mut bool) -> *mut List;
        fn apart = c"license_validate", "src/slurmctld/licenses.h, 25.05 and 25.11":
            fn(*mut c_char, bool, bool, bool, *mut u64, *mut bool) -> *mut List;
        fn apart_fuzzy = c"license_validate", "src/slurmctld/licenses.h, 26.05":
            fn(*mut c_char, bool, bool, bool, *mut u64, *mut bool, *mut bool) -> *mut List;
        fn destroy = c"slurm_list_destroy", "src/common/list.h": fn(*mut List);
        fn find_tres = c"assoc_mgr_find_tres_pos", "src/common/assoc_mgr.h": fn(*mut c_void, bool) -> c_int;
    }
}

/// Gives slurmctld's functions, and how they are called, if the site has slices counted. A slurmctld that counts none says so once.
fn counting() -> Option<(LicenseCall, &'static Licenses)> {
    static FOUND: OnceLock<Option<(LicenseCall, Licenses)>> = OnceLock::new();
    if !conf_string(Conf::licenses).is_some_and(|all| names_slices(&all)) {
        return None;
    }
    let look = || {
        let found = Licenses::look_up().map_err(|missing| missing.to_string());
        let call = version::license_call().ok_or_else(|| "nobody has looked at this series".to_owned());
        call.and_then(|call| Ok((call, found?)))
            .inspect_err(|why| log::error(format_args!("select plugin: slices are not counted: {why}")))
            .ok()
    };
    FOUND.get_or_init(look).as_ref().map(|(call, licenses)| (*call, licenses))
}

impl Licenses {
    /// Makes Slurm's list of a text, which is empty without any, and writes the amounts into the job; `None`: Slurm does not take it.
    fn list(&self, all: &CStr, job: Job) -> Option<*mut List> {
        let (all, counts, mut valid) = (all.as_ptr().cast_mut(), job.tres_req_cnt(), false);
        let is_valid = &raw mut valid;
        let list = match version::license_call()? {
            // SAFETY: licenses.h: copies the text; the counts are the job's own, one for each TRES, or null. It takes its own locks,
            // none of which slurmctld holds in this plugin's hooks. The prototype is that of the release.
            LicenseCall::OneList => unsafe { (self.one_list)(all, false, true, counts, is_valid) },
            // SAFETY: as above.
            LicenseCall::Apart => unsafe { (self.apart)(all, false, true, false, counts, is_valid) },
            // SAFETY: as above.
            LicenseCall::ApartFuzzy => unsafe {
                (self.apart_fuzzy)(all, false, true, false, counts, is_valid, null_mut())
            },
        };
        valid.then_some(list)
    }

    fn free(&self, list: *mut List) {
        if !list.is_null() {
            // SAFETY: list.h: a list that frees its elements, and that nothing points to any more.
            unsafe { (self.destroy)(list) };
        }
    }

    /// Gives the place of slices in a list of amounts; `None`: the accounting does not have them.
    fn place(&self) -> Option<usize> {
        let mut wanted = vec![0_u64; Tres::described()?.size.div_ceil(8)];
        // SAFETY: a zeroed struct of this size, as slurmctld itself begins with one (`license_set_job_tres_cnt`).
        let view = unsafe { Tres::at(wanted.as_mut_ptr()) }?;
        let name = CString::new(LICENSE).ok()?;
        // SAFETY: a field of this struct.
        unsafe { view.kind_at().write(c"license".as_ptr().cast_mut()) };
        // SAFETY: as above; the name lives to the end of this function.
        unsafe { view.name_at().write(name.as_ptr().cast_mut()) };
        // SAFETY: assoc_mgr.h: compares the names, under a lock that it takes itself.
        usize::try_from(unsafe { (self.find_tres)(wanted.as_mut_ptr().cast(), false) }).ok()
    }
}

/// Writes a job's list of licenses, and up to 24.11 their text.
fn write(host: &Host, job: Job, count: u64, licenses: &Licenses) {
    let before = job.licenses().unwrap_or_default();
    let Some(change) = LicenseChange::to_slices(&before, count) else { return };
    let mut made = None;
    for list in change.to_count {
        made.into_iter().for_each(|list| licenses.free(list));
        made = licenses.list(&list, job);
    }
    let Some(made) = made else {
        return log::error(format_args!(
            "job {}: Slurm does not take the licenses {}",
            job.job_id(),
            change.after
        ));
    };
    licenses.free(job.license_list());
    // SAFETY: a field of a live job, under slurmctld's job write lock.
    unsafe { job.license_list_at().write(made) };
    if version::license_call() == Some(LicenseCall::OneList) {
        // SAFETY: slurmctld.h: null or a string that Slurm allocated.
        unsafe { host.heap.replace(job.licenses_at(), &change.after) };
    }
}
