//! What differs in Slurm's structs between series. The functions that differ stand in `prototypes`; together the two are all there is to
//! look at when a new series comes. `slurm_since = "24.05"` holds for 24.05 and later.

use std::ffi::c_void;

#[cfg(slurm_since = "23.11")]
use slurmctld_rt::item;
use slurmctld_rt::{is_exclusive, struct_at};

use super::sys;

#[cfg(not(slurm_since = "23.02"))]
pub(super) use super::sys::job_details as JobDetails;
#[cfg(slurm_since = "23.02")]
pub(super) use super::sys::job_details_t as JobDetails;

/// The account of the GRES that shares the same devices: `shard` for `gpu`, and the other way round.
#[cfg(not(slurm_since = "23.11"))]
pub(super) fn sharing(state: &sys::gres_node_state_t) -> Option<&sys::gres_node_state_t> {
    // SAFETY: src/common/gres.h: null, or the state of the other GRES of the same node.
    unsafe { struct_at(state.alt_gres_ns) }
}

/// The account of the GRES that shares the same devices: `shard` for `gpu`, and the other way round.
#[cfg(slurm_since = "23.11")]
pub(super) fn sharing(state: &sys::gres_node_state_t) -> Option<&sys::gres_node_state_t> {
    // SAFETY: src/interfaces/gres.h: null, or the entry of the other GRES of the same node.
    let entry = unsafe { struct_at(state.alt_gres) }?;
    // SAFETY: the data of a node's GRES entry is a `gres_node_state_t`.
    unsafe { struct_at(entry.gres_data.cast()) }
}

/// Amounts per device do not exist before 23.11: a job's shards on a node come from one device.
#[cfg(not(slurm_since = "23.11"))]
pub(super) fn move_amounts(_: &sys::gres_job_state_t, _node: usize, _by_device: &[u64]) {}

/// Writes how much of the job's shards comes from each device of a node.
#[cfg(slurm_since = "23.11")]
pub(super) fn move_amounts(state: &sys::gres_job_state_t, node: usize, by_device: &[u64]) {
    // SAFETY: src/interfaces/gres.h: an array over the node table, or null for GRES that are not shared.
    let slots = unsafe { item(state.gres_per_bit_select, node) }.unwrap_or(std::ptr::null_mut());
    if slots.is_null() {
        return;
    }
    for (i, amount) in by_device.iter().enumerate() {
        // SAFETY: one element per device of the node.
        let slot = unsafe { slots.add(i) };
        // SAFETY: as above.
        unsafe { slot.write(*amount) };
    }
}

/// Tells whether a job is `--exclusive`.
pub(super) fn exclusive(whole_node: u8) -> bool {
    is_exclusive(whole_node, sys::WHOLE_NODE_REQUIRED, cfg!(slurm_since = "24.05"))
}

/// `RestrictedCoresPerGPU` does not exist before 24.05.
#[cfg(not(slurm_since = "24.05"))]
pub(super) fn keeps_cores_per_gpu(_: &sys::node_record_t) -> bool {
    false
}

/// `RestrictedCoresPerGPU`: cores that only jobs with a certain GPU may use.
#[cfg(slurm_since = "24.05")]
pub(super) fn keeps_cores_per_gpu(node: &sys::node_record_t) -> bool {
    node.res_cores_per_gpu > 0
}

/// Reservations hold whole nodes or cores before 23.11, never devices.
#[cfg(not(slurm_since = "23.11"))]
pub(super) fn reserves_devices(_: *mut c_void) -> bool {
    false
}

/// Tells whether reservations keep devices from the job, or keep it to some: cons_tres alone knows which.
#[cfg(slurm_since = "23.11")]
pub(super) fn reserves_devices(reserved: *mut c_void) -> bool {
    // SAFETY: select.h: null, or a `resv_exc_t` (src/slurmctld/slurmctld.h) that lives through the test.
    unsafe { struct_at(reserved.cast::<sys::resv_exc_t>()) }
        .is_some_and(|r| !r.gres_list_exc.is_null() || !r.gres_list_inc.is_null())
}
