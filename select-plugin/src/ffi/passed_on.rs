//! The symbols that every known Slurm asks for with the same prototype, and that only forward. Those of some series alone
//! stand in `version.rs`.

use std::ffi::{c_int, c_void};

type Any = *mut c_void;
const FAIL: c_int = -1;

forward! {
    fn select_p_node_init() -> c_int, else FAIL;
    fn select_p_job_ready(job: Any) -> c_int, else FAIL;
    fn select_p_job_suspend(job: Any, indefinite: bool) -> c_int, else FAIL;
    fn select_p_job_resume(job: Any, indefinite: bool) -> c_int, else FAIL;
}
