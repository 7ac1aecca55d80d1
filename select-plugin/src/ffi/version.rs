//! Everything of Slurm that differs between series: the one file to look at when a new one comes.
//!
//! `slurm_since = "24.05"` holds for 24.05 and later. The prototypes are those of Slurm's own plugin,
//! `src/plugins/select/cons_tres/select_cons_tres.c`; the symbols that Slurm asks for stand in `src/common/select.c` (22.05)
//! or `src/interfaces/select.c`.

use std::ffi::{c_int, c_void};

#[cfg(slurm_since = "23.11")]
use plugin_rt::slurmctld::item;
use plugin_rt::slurmctld::struct_at;

use super::job_test::{self, Call};
use super::sys;

#[cfg(all(test, not(slurm_since = "23.02")))]
pub(super) use super::sys::job_details as JobDetails;
#[cfg(all(test, slurm_since = "23.02"))]
pub(super) use super::sys::job_details_t as JobDetails;

type Any = *mut c_void;
const FAIL: c_int = -1;

/// Names of the functions that are only forwarded, by series.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let all: [&[&str]; 5] = [
        until_22_05::NAMES,
        until_23_02::NAMES,
        until_24_11::NAMES,
        super::passed_on::NAMES,
        since_26_05::NAMES,
    ];
    all.into_iter().flatten().copied()
}

/// Nothing to forward.
macro_rules! none {
    ($($module:ident)*) => {$(
        mod $module {
            pub(super) const NAMES: &[&str] = &[];
        }
    )*};
}

#[cfg(slurm_since = "23.02")]
none!(until_22_05);
#[cfg(not(slurm_since = "23.02"))]
mod until_22_05 {
    use super::{Any, FAIL};
    use std::ffi::{c_char, c_int};
    use std::ptr::null_mut;

    forward! {
        fn select_p_job_signal(job: Any, signal: c_int) -> c_int, else FAIL;
        fn select_p_select_jobinfo_sprint(info: Any, text: *mut c_char, size: usize, mode: c_int) -> *mut c_char,
            else null_mut();
        fn select_p_select_jobinfo_xstrdup(info: Any, mode: c_int) -> *mut c_char, else null_mut();
        fn select_p_update_node_config(index: c_int) -> c_int, else FAIL;
    }
}

#[cfg(slurm_since = "23.11")]
none!(until_23_02);
#[cfg(not(slurm_since = "23.11"))]
mod until_23_02 {
    use super::Any;
    use std::ptr::null_mut;

    forward! {
        fn select_p_resv_test(desc: Any, nodes: u32, avail: Any, cores: Any) -> Any, else null_mut();
    }
}

#[cfg(slurm_since = "25.05")]
none!(until_24_11);
#[cfg(not(slurm_since = "25.05"))]
mod until_24_11 {
    use super::{Any, FAIL};
    use std::ffi::{c_char, c_int};
    use std::ptr::null_mut;

    forward! {
        fn select_p_state_save(dir: *mut c_char) -> c_int, else FAIL;
        fn select_p_state_restore(dir: *mut c_char) -> c_int, else FAIL;
        fn select_p_job_init(jobs: Any) -> c_int, else FAIL;
        fn select_p_step_pick_nodes(job: Any, info: Any, nodes: u32, avail: Any) -> Any, else null_mut();
        fn select_p_step_finish(step: Any, killing: bool) -> c_int, else FAIL;
        fn select_p_select_nodeinfo_pack(info: Any, buffer: Any, version: u16) -> c_int, else FAIL;
        fn select_p_select_nodeinfo_unpack(info: Any, buffer: Any, version: u16) -> c_int, else FAIL;
        fn select_p_select_nodeinfo_alloc() -> Any, else null_mut();
        fn select_p_select_nodeinfo_free(info: Any) -> c_int, else FAIL;
        fn select_p_select_nodeinfo_get(info: Any, what: u32, state: u32, data: Any) -> c_int, else FAIL;
        fn select_p_select_jobinfo_alloc() -> Any, else null_mut();
        fn select_p_select_jobinfo_free(info: Any) -> c_int, else FAIL;
        fn select_p_select_jobinfo_set(info: Any, what: u32, data: Any) -> c_int, else FAIL;
        fn select_p_select_jobinfo_get(info: Any, what: u32, data: Any) -> c_int, else FAIL;
        fn select_p_select_jobinfo_copy(info: Any) -> Any, else null_mut();
        fn select_p_select_jobinfo_pack(info: Any, buffer: Any, version: u16) -> c_int, else FAIL;
        fn select_p_select_jobinfo_unpack(info: Any, buffer: Any, version: u16) -> c_int, else FAIL;
        fn select_p_get_info_from_plugin(what: u32, job: Any, data: Any) -> c_int, else FAIL;
    }
}

#[cfg(not(slurm_since = "26.05"))]
none!(since_26_05);
#[cfg(slurm_since = "26.05")]
mod since_26_05 {
    use super::Any;

    forward! {
        fn select_p_job_mem_reduce(job: Any) -> (), else ();
    }
}

/// Defines `select_p_job_test` with these arguments at its end; `reserved` is the one that says what reservations keep
/// from the job. `candidates` are the jobs that may be preempted for it.
macro_rules! job_test {
    (reserved $reserved:expr; $($last:ident),*) => {
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
            $($last: Any),*
        ) -> c_int {
            let call = Call { job, bitmap, min_nodes, mode, candidates, preempted, reserved: $reserved };
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
                        $($last: Any),*
                    ) -> c_int,
                    else FAIL
                )
            })
        }
    };
}

// The cores to avoid.
#[cfg(not(slurm_since = "23.11"))]
job_test!(reserved std::ptr::null_mut(); cores);
#[cfg(all(slurm_since = "23.11", not(slurm_since = "24.11")))]
job_test!(reserved reserved; reserved);
#[cfg(slurm_since = "24.11")]
job_test!(reserved reserved; reserved, will_run);

#[cfg(not(slurm_since = "25.11"))]
#[unsafe(no_mangle)]
extern "C" fn fini() -> c_int {
    call_real!(fini() -> c_int, else 0)
}

#[cfg(slurm_since = "25.11")]
#[unsafe(no_mangle)]
extern "C" fn fini() {
    call_real!(fini() -> (), else ());
}

/// The accounts of the GRES that shares the same devices: `shard` for `gpu`, and the other way round.
#[cfg(not(slurm_since = "23.11"))]
pub(super) fn sharing(state: &sys::gres_node_state_t) -> Option<&sys::gres_node_state_t> {
    // SAFETY: src/common/gres.h: null, or the state of the other GRES of the same node.
    unsafe { struct_at(state.alt_gres_ns) }
}

/// The accounts of the GRES that shares the same devices: `shard` for `gpu`, and the other way round.
#[cfg(slurm_since = "23.11")]
pub(super) fn sharing(state: &sys::gres_node_state_t) -> Option<&sys::gres_node_state_t> {
    // SAFETY: src/interfaces/gres.h: null, or the entry of the other GRES of the same node.
    let entry = unsafe { struct_at(state.alt_gres) }?;
    // SAFETY: the data of a node's GRES entry is a `gres_node_state_t`.
    unsafe { struct_at(entry.gres_data.cast()) }
}

/// Amounts per device do not exist before 23.11: a job's shards on a node come from one device.
#[cfg(not(slurm_since = "23.11"))]
pub(super) fn move_amounts(
    _: &sys::gres_job_state_t,
    _node: usize,
    _n_devices: usize,
    _amounts: &[(usize, u64)],
) {
}

/// Writes how much of the job's shards comes from each device of a node.
#[cfg(slurm_since = "23.11")]
pub(super) fn move_amounts(
    state: &sys::gres_job_state_t,
    node: usize,
    n_devices: usize,
    amounts: &[(usize, u64)],
) {
    // SAFETY: src/interfaces/gres.h: an array over the node table, or null for GRES that are not shared.
    let per_device = unsafe { item(state.gres_per_bit_select, node) }.unwrap_or(std::ptr::null_mut());
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

/// `--exclusive`: one value of several before 24.05, then a flag beside others.
pub(super) fn exclusive(whole_node: u8) -> bool {
    let whole_node = u32::from(whole_node);
    if cfg!(slurm_since = "24.05") {
        whole_node & sys::WHOLE_NODE_REQUIRED != 0
    } else {
        whole_node == sys::WHOLE_NODE_REQUIRED
    }
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
pub(super) fn reserves_devices(_: Any) -> bool {
    false
}

/// Tells whether reservations keep devices from the job, or keep it to some: cons_tres alone knows which.
#[cfg(slurm_since = "23.11")]
pub(super) fn reserves_devices(reserved: Any) -> bool {
    // SAFETY: select.h: null, or a `resv_exc_t` (src/slurmctld/slurmctld.h) that lives through the test.
    unsafe { struct_at(reserved.cast::<sys::resv_exc_t>()) }
        .is_some_and(|r| !r.gres_list_exc.is_null() || !r.gres_list_inc.is_null())
}
