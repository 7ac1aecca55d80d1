//! The function that slurmctld calls with another prototype in some series.

use std::ffi::c_int;

use super::{entry, sys};

/// A change to a job; there is no place for a message to the user before 23.02.
#[cfg(not(slurm_since = "23.02"))]
#[unsafe(no_mangle)]
unsafe extern "C" fn job_modify(
    desc: *mut sys::job_desc_msg_t,
    job: *mut sys::job_record_t,
    uid: u32,
) -> c_int {
    entry::modify(desc, job, uid, std::ptr::null_mut())
}

/// A change to a job.
#[cfg(slurm_since = "23.02")]
#[unsafe(no_mangle)]
unsafe extern "C" fn job_modify(
    desc: *mut sys::job_desc_msg_t,
    job: *mut sys::job_record_t,
    uid: u32,
    message: *mut *mut std::ffi::c_char,
) -> c_int {
    entry::modify(desc, job, uid, message)
}
