//! The symbols Slurm reads and calls, beside those that only forward.

use std::ffi::{c_int, c_void};

use plugin_rt::{Chain, log};

use super::{real, sys};

/// Text that Slurm reads as `const char name[]`.
#[repr(transparent)]
struct Text<const N: usize>([u8; N]);

macro_rules! text {
    ($name:ident, $text:literal) => {
        /// Read by Slurm's plugin loader.
        #[unsafe(no_mangle)]
        static $name: Text<{ $text.len() + 1 }> = {
            let mut bytes = [0; $text.len() + 1];
            let mut i = 0;
            while i < $text.len() {
                bytes[i] = $text.as_bytes()[i];
                i += 1;
            }
            Text(bytes)
        };
    };
}
text!(plugin_name, "Tessera: GPU placement on top of select/cons_tres");
text!(plugin_type, "select/cons_tres");

/// The id of the plugin this one stands in front of.
#[unsafe(no_mangle)]
static plugin_id: u32 = sys::SELECT_PLUGIN_CONS_TRES;

/// The Slurm that the structs were read from: the loader refuses any other.
#[unsafe(no_mangle)]
static plugin_version: u32 = sys::SLURM_VERSION_NUMBER;

const SUCCESS: c_int = sys::SLURM_SUCCESS as c_int;
const ERROR: c_int = sys::SLURM_ERROR;

#[unsafe(no_mangle)]
extern "C" fn init() -> c_int {
    plugin_rt::install_panic_hook();
    if let Err(e) = real::load() {
        log::error(format_args!("select plugin: {}", Chain(&e)));
        return ERROR;
    }
    call_real!(init() -> c_int, else SUCCESS)
}

#[unsafe(no_mangle)]
extern "C" fn fini() -> c_int {
    call_real!(fini() -> c_int, else SUCCESS)
}
type Any = *mut c_void;
forward! {
    fn select_p_job_expand(from: Any, to: Any) -> c_int, else ERROR;
    fn select_p_job_resized(job: Any, node: Any) -> c_int, else ERROR;
    fn select_p_job_fini(job: Any) -> c_int, else ERROR;
    fn select_p_reconfigure() -> c_int, else ERROR;
    fn select_p_select_nodeinfo_set(job: Any) -> c_int, else ERROR;
    fn select_p_job_test(job: Any, bitmap: Any, min: u32, max: u32, req: u32, mode: u16, cand: Any, list: Any, exc: Any) -> c_int, else ERROR;
}
