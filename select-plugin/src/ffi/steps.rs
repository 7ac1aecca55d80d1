//! Which devices a step has in Slurm's accounts.

use plugin_rt::slurmctld::{item, struct_at};

use super::host::Host;
use super::read::{MAX_GPUS, gres_states};
use super::sys;
use crate::view::GresKind;

/// Gives a step with shards all GPUs of its job's shards. Slurm 22.05 gives it one (`gres_ctld.c`, `_set_step_gres_bit_alloc`),
/// and a device cgroup would keep it from instances on the others. Which of the job's instances are the step's is settled
/// on the node. Slurm forgets a step's devices without counting them.
pub(super) fn widen(host: &Host, job: &sys::job_record_t, step: &sys::step_record_t) {
    let of_step = gres_states::<sys::gres_step_state_t>(host, step.gres_list_alloc.cast());
    for (_, own) in of_step.into_iter().filter(|(kind, _)| *kind == GresKind::Shard) {
        // SAFETY: the data of a step's GRES entry is a `gres_step_state_t`.
        let Some(own) = (unsafe { struct_at(own) }) else { continue };
        for (_, all) in gres_states::<sys::gres_job_state_t>(host, job.gres_list_alloc.cast()) {
            // SAFETY: the data of a job's GRES entry is a `gres_job_state_t`.
            let Some(all) = (unsafe { struct_at(all) }) else { continue };
            if all.type_id == own.type_id || own.type_id == 0 {
                (0..own.node_cnt.min(all.node_cnt) as usize).for_each(|node| on_node(host, own, all, node));
            }
        }
    }
}

fn on_node(host: &Host, own: &sys::gres_step_state_t, all: &sys::gres_job_state_t, node: usize) {
    // SAFETY: src/common/gres.h: arrays of `node_cnt` elements, or null.
    let bits = unsafe { item(own.gres_bit_alloc, node) }.unwrap_or(std::ptr::null_mut());
    // SAFETY: as above.
    let of_job = unsafe { item(all.gres_bit_alloc, node) }.unwrap_or(std::ptr::null_mut());
    // SAFETY: null or a live bit string.
    let has = unsafe { host.bits_set(bits, MAX_GPUS) };
    // SAFETY: null or a live bit string.
    let may_have = unsafe { host.bits_set(of_job, MAX_GPUS) };
    if has.is_empty() || may_have.len() < 2 || !has.iter().all(|gpu| may_have.contains(gpu)) {
        return;
    }
    for gpu in may_have {
        // SAFETY: a bit string of the step's own.
        unsafe { host.put(bits, gpu, true) };
    }
}
