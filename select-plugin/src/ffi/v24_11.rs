//! Slurm 24.11: the symbols `src/interfaces/select.c` asks for, and where its structs differ.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use plugin_rt::slurmctld::{item, struct_at};

use super::job_test::{self, Call};
use super::sys;

#[cfg(test)]
pub(super) use super::sys::job_details_t as JobDetails;

type Any = *mut c_void;
const FAIL: c_int = -1;

/// Everything that is forwarded has the prototype of earlier releases.
pub(super) const NAMES: &[&str] = &[];

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
    reserved: Any,
    will_run: Any,
) -> c_int {
    let call = Call { job, bitmap, min_nodes, mode, candidates, preempted, reserved };
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
                reserved: Any,
                will_run: Any
            ) -> c_int,
            else FAIL
        )
    })
}

/// The accounts of the GRES that shares the same devices: `shard` for `gpu`, and the other way round.
pub(super) fn sharing(state: &sys::gres_node_state_t) -> Option<&sys::gres_node_state_t> {
    // SAFETY: src/interfaces/gres.h: null, or the entry of the other GRES of the same node.
    let entry = unsafe { struct_at(state.alt_gres) }?;
    // SAFETY: the data of a node's GRES entry is a `gres_node_state_t`.
    unsafe { struct_at(entry.gres_data.cast()) }
}

/// Writes how much of the job's shards comes from each device of a node.
pub(super) fn move_amounts(
    state: &sys::gres_job_state_t,
    node: usize,
    n_devices: usize,
    amounts: &[(usize, u64)],
) {
    // SAFETY: src/interfaces/gres.h: an array over the node table, or null for GRES that are not shared.
    let per_device = unsafe { item(state.gres_per_bit_select, node) }.unwrap_or(null_mut());
    if per_device.is_null() {
        return;
    }
    for i in 0..n_devices {
        let amount = amounts.iter().find(|(device, _)| *device == i).map_or(0, |(_, n)| *n);
        // SAFETY: one element per device of the node.
        let slot = unsafe { per_device.add(i) };
        // SAFETY: as above.
        unsafe { slot.write(amount) };
    }
}

/// `--exclusive`: a flag beside others.
pub(super) fn exclusive(whole_node: u8) -> bool {
    u32::from(whole_node) & sys::WHOLE_NODE_REQUIRED != 0
}

/// `RestrictedCoresPerGPU`: cores that only jobs with a certain GPU may use.
pub(super) fn keeps_cores_per_gpu(node: &sys::node_record_t) -> bool {
    node.res_cores_per_gpu > 0
}

/// Whether reservations keep devices from the job, or keep it to some: cons_tres alone knows which.
pub(super) fn reserves_devices(reserved: Any) -> bool {
    // SAFETY: select.h: null, or a `resv_exc_t` (src/slurmctld/slurmctld.h) that lives through the test.
    unsafe { struct_at(reserved.cast::<sys::resv_exc_t>()) }
        .is_some_and(|r| !r.gres_list_exc.is_null() || !r.gres_list_inc.is_null())
}
