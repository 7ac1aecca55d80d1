//! Differences between series of Slurm, other than the places of fields. The functions that differ stand in `entry`; together the
//! two are all there is to look at when a new series comes.

use std::ffi::c_void;

use slurm_numbers as numbers;
use slurm_tables::{List, ListOf, Version};
use slurmctld_rt::{LicenseCall, is_exclusive, item};

use super::records::{Gres, JobGres, Node, NodeGres, Reserved, Window};

plugin_rt::stamped_version!(fn stamped);

/// Gives the version of the Slurm that loads this plugin: the loader refuses a plugin with another.
pub(crate) fn slurm() -> Version {
    if cfg!(test) { Version::new(22, 5, 8) } else { Version(stamped()) }
}

/// Gives the account of the GRES that shares the same devices: `shard` for `gpu`, and the other way round.
pub(crate) fn sharing(state: NodeGres) -> Option<NodeGres> {
    if let Some(other) = state.alt_gres_ns() {
        return other;
    }
    // From 23.11.4 (src/interfaces/gres.h) its entry.
    let entry = state.alt_gres()??;
    // SAFETY: the data of a node's GRES entry.
    unsafe { NodeGres::at(entry.gres_data()) }
}

/// Tells whether Slurm keeps amounts per device, and the devices of shards as long as a job has any there. Before 23.11 a job's
/// shards on a node come from one device.
pub(crate) fn counts_by_device() -> bool {
    slurm().since(23, 11)
}

/// Writes how much of the job's shards comes from each device of a node.
pub(super) fn move_amounts(state: JobGres, node: usize, by_device: &[u64]) {
    let Some(array) = state.gres_per_bit_select() else { return };
    // SAFETY: src/interfaces/gres.h: an array over the node table, or null for GRES that are not shared.
    let slots = unsafe { item(array, node) }.unwrap_or(std::ptr::null_mut());
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
pub(crate) fn exclusive(whole_node: u8) -> bool {
    is_exclusive(whole_node, numbers::WHOLE_NODE_REQUIRED, slurm().since(24, 5))
}

/// Tells whether a node keeps cores for jobs with certain GPUs: `RestrictedCoresPerGPU`, from 24.05.
pub(super) fn keeps_cores_per_gpu(node: Node) -> bool {
    node.res_cores_per_gpu().is_some_and(|cores| cores > 0)
}

/// Gives the GRES that reservations keep from the job, or keep it to (`true`). Before 23.11 they hold whole nodes or cores.
pub(crate) fn reserved(reserved: *mut c_void) -> Option<(bool, ListOf<Gres>)> {
    // SAFETY: select.h: null, or a `resv_exc_t` that lives through the test; `job_test` gives none before 23.11.
    let reserved = unsafe { Reserved::at(reserved) }?;
    // cons_tres looks at the second only if there is no first.
    let lists = [(false, reserved.gres_list_exc()), (true, reserved.gres_list_inc())];
    let is_list = |of: &ListOf<Gres>| !of.list.is_null() && has_lists(reserved);
    lists.into_iter().find_map(|(keeps_to, list)| Some((keeps_to, list.filter(is_list)?)))
}

/// Tells whether the structure has lists where the table says. It is no block of its own, so `fit` does not see it.
fn has_lists(reserved: Reserved) -> bool {
    Reserved::described().is_some_and(|known| known.check_fields(reserved.address().addr()).is_ok())
}

/// GRES that a reservation keeps a job to, hidden from Slurm's own test until this is dropped.
pub(crate) struct HiddenReservation {
    place: *mut *mut List,
    list: *mut List,
}

/// Hides the GRES that a reservation keeps a job to. From 25.05 on Slurm takes a reservation of GPUs for one without shards, and lets no job
/// with shards start in it [`_handle_gres_exc_topo`, gres_sock_list.c].
pub(crate) fn hide_reserved(reserved: *mut c_void) -> Option<HiddenReservation> {
    // SAFETY: as in `reserved`; slurmctld frees the list after the test.
    let reserved = unsafe { Reserved::at(reserved) }?;
    let (list, place) = (reserved.gres_list_inc()?.list, reserved.gres_list_inc_at()?);
    if list.is_null() || !has_lists(reserved) {
        return None;
    }
    // SAFETY: a field of that structure, which belongs to this test alone.
    unsafe { place.write(std::ptr::null_mut()) };
    Some(HiddenReservation { place, list })
}

impl Drop for HiddenReservation {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { self.place.write(self.list) };
    }
}

/// Gives the time from which on a start is asked for, seconds since 1970; 0: from now on. Backfill asks for later ones from 24.11 on.
pub(crate) fn asked_from(will_run: *mut c_void) -> i64 {
    // SAFETY: select.h: null, or a `will_run_data_t` that lives through the test. A Slurm without it has no such field.
    unsafe { Window::at(will_run) }.and_then(Window::start).unwrap_or(0)
}

/// Gives how this slurmctld reads a list of licenses.
pub(crate) fn license_call() -> Option<LicenseCall> {
    LicenseCall::of(slurm())
}
