//! Slurm 22.05: how GRES are written in a job description, and the hook that has another prototype elsewhere.

use std::ffi::c_int;

use super::{entry, sys};

/// One entry of `tres_per_node`.
pub(super) fn gres(name: &str, count: u32) -> String {
    format!("gres:{name}:{count}")
}

/// `--exclusive`: in this version one value of several.
pub(super) fn exclusive(whole_node: u8) -> bool {
    u32::from(whole_node) == sys::WHOLE_NODE_REQUIRED
}

/// A change to a job; there is no place for a message to the user in this version.
#[unsafe(no_mangle)]
unsafe extern "C" fn job_modify(
    desc: *mut sys::job_desc_msg_t,
    job: *mut sys::job_record_t,
    uid: u32,
) -> c_int {
    entry::modify(desc, job, uid, std::ptr::null_mut())
}
