//! The functions that Slurm asks for in some series only, or with another prototype, and those that only forward.
//!
//! `slurm_since = "24.05"` holds for 24.05 and later. The prototypes are those of Slurm's own plugin,
//! `src/plugins/select/cons_tres/select_cons_tres.c`; the symbols that Slurm asks for stand in `src/common/select.c` (22.05)
//! or `src/interfaces/select.c`.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

use super::call::Call;
use super::{job_test, sys};

type Any = *mut c_void;
const FAIL: c_int = -1;

forward! {
    (all()) {
        fn select_p_node_init() -> c_int, else FAIL;
        fn select_p_job_ready(job: Any) -> c_int, else FAIL;
        fn select_p_job_suspend(job: Any, indefinite: bool) -> c_int, else FAIL;
        fn select_p_job_resume(job: Any, indefinite: bool) -> c_int, else FAIL;
    }
    (not(slurm_since = "23.02")) {
        fn select_p_job_signal(job: Any, signal: c_int) -> c_int, else FAIL;
        fn select_p_select_jobinfo_sprint(info: Any, text: *mut c_char, size: usize, mode: c_int) -> *mut c_char,
            else null_mut();
        fn select_p_select_jobinfo_xstrdup(info: Any, mode: c_int) -> *mut c_char, else null_mut();
        fn select_p_update_node_config(index: c_int) -> c_int, else FAIL;
    }
    (not(slurm_since = "23.11")) {
        fn select_p_resv_test(desc: Any, nodes: u32, avail: Any, cores: Any) -> Any, else null_mut();
    }
    (not(slurm_since = "25.05")) {
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
    (slurm_since = "26.05") {
        fn select_p_job_mem_reduce(job: Any) -> (), else ();
    }
}

/// Exports `select_p_job_test` with these arguments at its end; `reserved` is the one that says what reservations keep
/// from the job. `candidates` are the jobs that may be preempted for it.
macro_rules! job_test {
    (reserved $reserved:expr; $($last:ident),*) => {
        around!(
            fn select_p_job_test(
                job: *mut sys::job_record_t,
                bitmap: *mut sys::bitstr_t,
                min_nodes: u32,
                max_nodes: u32,
                req_nodes: u32,
                mode: u16,
                candidates: Any,
                preempted: *mut Any
                $(, $last: Any)*
            ) -> c_int,
            else FAIL,
            |real| {
                let call = Call { job, bitmap, min_nodes, mode, candidates, preempted, reserved: $reserved };
                job_test::run(&call, real)
            }
        );
    };
}

// The cores to avoid.
#[cfg(not(slurm_since = "23.11"))]
job_test!(reserved null_mut(); cores);
#[cfg(all(slurm_since = "23.11", not(slurm_since = "24.11")))]
job_test!(reserved reserved; reserved);
#[cfg(slurm_since = "24.11")]
job_test!(reserved reserved; reserved, will_run);

#[cfg(not(slurm_since = "25.11"))]
around!(fn fini() -> c_int, else 0, |real| real());
#[cfg(slurm_since = "25.11")]
around!(fn fini() -> (), else (), |real| real());
