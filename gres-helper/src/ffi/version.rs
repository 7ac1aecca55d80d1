//! Everything of Slurm that differs between series: the one file to look at when a new one comes. `slurm_since = "24.05"`
//! holds for 24.05 and later.

use std::ffi::c_int;

use slurmctld_rt::is_exclusive;

use super::{entry, sys};

/// True if slurmctld frees `extra` of a submission twice (`_copy_job_desc_to_job_record`).
pub(super) const FREES_EXTRA_TWICE: bool = !cfg!(slurm_since = "23.02");

/// One entry of `tres_per_node`.
pub(super) fn gres(name: &str, count: u32) -> String {
    let kind = if cfg!(slurm_since = "23.11") { "gres/" } else { "gres:" };
    format!("{kind}{name}:{count}")
}

/// `--exclusive`.
pub(super) fn exclusive(whole_node: u8) -> bool {
    is_exclusive(whole_node, sys::WHOLE_NODE_REQUIRED, cfg!(slurm_since = "24.05"))
}

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
