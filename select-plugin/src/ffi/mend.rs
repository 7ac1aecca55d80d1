//! Slurm before 23.11 forgets that a device has shards when one of its jobs ends, whoever else has shards there, and gives the
//! device whole to the next job (`_job_dealloc` in `gres_ctld.c`). Its counts stay right, and later series go by these.

use plugin_rt::slurmctld::struct_at;

use super::host::Host;
use super::read::{self, MAX_GPUS, gres_states};
use super::{chosen, sys};
use crate::view::GresKind;

/// Marks each device of the job's nodes that has shards as allocated. For a job that has just given its own back.
pub(super) fn nodes_of(host: &Host, job: &sys::job_record_t) {
    if read::job_gres(host, job).iter().all(|(kind, _)| *kind != GresKind::Shard) {
        return;
    }
    // SAFETY: null or the resources of a job that ends, which Slurm keeps until its epilog is over.
    let Some(resources) = (unsafe { struct_at(job.job_resrcs) }) else { return };
    // SAFETY: a bitmap over the node table, or null.
    for index in unsafe { host.bits_set(resources.node_bitmap, host.node_count()) } {
        if let Some(record) = host.node(index) {
            // SAFETY: a slot of the node table, under slurmctld's node write lock.
            node(host, unsafe { record.as_ref() });
        }
    }
}

/// Marks each device with shards of one node as allocated.
pub(super) fn node(host: &Host, record: &sys::node_record_t) {
    for (kind, state) in gres_states::<sys::gres_node_state_t>(host, record.gres_list.cast()) {
        // SAFETY: the data of a node's GRES entry is a `gres_node_state_t`.
        let Some(state) = (unsafe { struct_at(state) }).filter(|_| kind == GresKind::Shard) else { continue };
        // SAFETY: the bit string of a node's GRES; null without device files.
        let size = unsafe { host.size(state.gres_bit_alloc) }.min(MAX_GPUS);
        for device in (0..size).filter(|device| chosen::used(host, state, *device) > 0) {
            // SAFETY: as above; hooks may write to it under the node write lock.
            unsafe { host.put(state.gres_bit_alloc, device, true) };
        }
    }
}
