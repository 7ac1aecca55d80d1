//! The functions that Slurm asks for in some series only, or with another prototype, and those that only forward.
//!
//! All are exported in every version: Slurm calls those that it knows. A function that has got one more argument is written with all
//! of them: an older Slurm leaves that one's place as it was, and Slurm's own function does not look there (decision 0040). The
//! prototypes are those of Slurm's own plugin,
//! `src/plugins/select/cons_tres/select_cons_tres.c`; the symbols that Slurm asks for stand in `src/common/select.c` (22.05)
//! or `src/interfaces/select.c`.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

use plugin_front::{around, forward};
use slurmctld_rt::{BitString, List};

use super::REAL;
use crate::ffi::call::Call;
use crate::ffi::records::Job;
use crate::ffi::version;
use crate::live::job_test;

type Any = *mut c_void;
const FAIL: c_int = -1;

forward! {
    (always) {
        fn select_p_node_init() -> c_int, else FAIL;
        fn select_p_job_ready(job: Any) -> c_int, else FAIL;
        fn select_p_job_suspend(job: Any, indefinite: bool) -> c_int, else FAIL;
        fn select_p_job_resume(job: Any, indefinite: bool) -> c_int, else FAIL;
    }
    (until 23, 2) {
        fn select_p_job_signal(job: Any, signal: c_int) -> c_int, else FAIL;
        fn select_p_select_jobinfo_sprint(info: Any, text: *mut c_char, size: usize, mode: c_int) -> *mut c_char,
            else null_mut();
        fn select_p_select_jobinfo_xstrdup(info: Any, mode: c_int) -> *mut c_char, else null_mut();
        fn select_p_update_node_config(index: c_int) -> c_int, else FAIL;
    }
    (until 23, 11) {
        fn select_p_resv_test(desc: Any, nodes: u32, avail: Any, cores: Any) -> Any, else null_mut();
    }
    (until 25, 5) {
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
    (since 26, 5) {
        fn select_p_job_mem_reduce(job: Any) -> (), else ();
    }
}

around!(
    /// The test of a job. The last argument is there from 24.11; the one before it says what reservations keep from the job from
    /// 23.11, and has the cores to avoid before.
    fn select_p_job_test(
        job: Any,
        bitmap: *mut BitString,
        min_nodes: u32,
        max_nodes: u32,
        req_nodes: u32,
        mode: u16,
        candidates: *mut List,
        preempted: *mut *mut List,
        reserved: Any,
        will_run: Any
    ) -> c_int,
    else FAIL,
    |real| {
        let reserved = if version::counts_by_device() { reserved } else { null_mut() };
        // SAFETY: select.h: the record of a live job, under slurmctld's job write lock.
        let job = unsafe { Job::at(job) };
        let from = version::asked_from(will_run);
        job_test::run(&Call { job, bitmap, min_nodes, mode, candidates, preempted, reserved, from }, real)
    }
);

// From 25.11 Slurm expects no return value, and ignores this one.
around!(fn fini() -> c_int, else 0, |real| real());
