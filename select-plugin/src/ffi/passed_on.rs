//! The symbols that every known Slurm asks for with the same prototype, and that only forward.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

type Any = *mut c_void;
const FAIL: c_int = -1;

forward! {
    fn select_p_state_save(dir: *mut c_char) -> c_int, else FAIL;
    fn select_p_state_restore(dir: *mut c_char) -> c_int, else FAIL;
    fn select_p_job_init(jobs: Any) -> c_int, else FAIL;
    fn select_p_node_init() -> c_int, else FAIL;
    fn select_p_job_ready(job: Any) -> c_int, else FAIL;
    fn select_p_job_suspend(job: Any, indefinite: bool) -> c_int, else FAIL;
    fn select_p_job_resume(job: Any, indefinite: bool) -> c_int, else FAIL;
    fn select_p_step_pick_nodes(job: Any, info: Any, nodes: u32, avail: Any) -> Any, else null_mut();
    fn select_p_step_finish(step: Any, killing: bool) -> c_int, else FAIL;
    fn select_p_select_nodeinfo_pack(info: Any, buffer: Any, version: u16) -> c_int, else FAIL;
    fn select_p_select_nodeinfo_unpack(info: Any, buffer: Any, version: u16) -> c_int, else FAIL;
    fn select_p_select_nodeinfo_alloc() -> Any, else null_mut();
    fn select_p_select_nodeinfo_free(info: Any) -> c_int, else FAIL;
    fn select_p_select_nodeinfo_set_all() -> c_int, else FAIL;
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
