//! Slurm 22.05: the symbols `src/common/select.c` asks for, and where its structs differ.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

use plugin_rt::slurmctld::struct_at;

use super::job_test::{self, Call};
use super::sys;

#[cfg(test)]
pub(super) use super::sys::job_details as JobDetails;

type Any = *mut c_void;
const FAIL: c_int = -1;

forward! {
    fn select_p_job_signal(job: Any, signal: c_int) -> c_int, else FAIL;
    fn select_p_select_jobinfo_sprint(info: Any, text: *mut c_char, size: usize, mode: c_int) -> *mut c_char,
        else null_mut();
    fn select_p_select_jobinfo_xstrdup(info: Any, mode: c_int) -> *mut c_char, else null_mut();
    fn select_p_update_node_config(index: c_int) -> c_int, else FAIL;
    fn select_p_resv_test(desc: Any, nodes: u32, avail: Any, cores: Any) -> Any, else null_mut();
}

/// Tests where a job can run; `candidates` are the jobs that may be preempted for it.
#[unsafe(no_mangle)]
unsafe extern "C" fn select_p_job_test(
    job: *mut sys::job_record_t,
    bitmap: *mut sys::bitstr_t,
    min_nodes: u32,
    max_nodes: u32,
    req_nodes: u32,
    mode: u16,
    candidates: Any,
    preempted: *mut Any,
    cores: Any,
) -> c_int {
    let call = Call { job, bitmap, min_nodes, mode, candidates, preempted, reserved: null_mut() };
    job_test::run(&call, || {
        call_real!(
            select_p_job_test(
                job: *mut sys::job_record_t,
                bitmap: *mut sys::bitstr_t,
                min_nodes: u32,
                max_nodes: u32,
                req_nodes: u32,
                mode: u16,
                candidates: Any,
                preempted: *mut Any,
                cores: Any
            ) -> c_int,
            else FAIL
        )
    })
}

/// The accounts of the GRES that shares the same devices: `shard` for `gpu`, and the other way round.
pub(super) fn sharing(state: &sys::gres_node_state_t) -> Option<&sys::gres_node_state_t> {
    // SAFETY: src/common/gres.h: null, or the state of the other GRES of the same node.
    unsafe { struct_at(state.alt_gres_ns) }
}

/// Amounts per device do not exist in this version: a job's shards on a node come from one device.
pub(super) fn move_amounts(
    _: &sys::gres_job_state_t,
    _node: usize,
    _n_devices: usize,
    _amounts: &[(usize, u64)],
) {
}

/// `--exclusive`: in this version one value of several.
pub(super) fn exclusive(whole_node: u8) -> bool {
    u32::from(whole_node) == sys::WHOLE_NODE_REQUIRED
}

/// `RestrictedCoresPerGPU` does not exist in this version.
pub(super) fn keeps_cores_per_gpu(_: &sys::node_record_t) -> bool {
    false
}

/// Reservations hold whole nodes or cores in this version, never devices.
pub(super) fn reserves_devices(_: Any) -> bool {
    false
}
