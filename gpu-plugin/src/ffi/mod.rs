//! The symbols that Slurm reads and calls.
//!
//! `src/plugins/gpu/nvml/gpu_nvml.c` has their prototypes; the symbols that Slurm asks for are listed in `src/common/gpu.c` (22.05) or
//! `src/interfaces/gpu.c`. All are exported in every version: Slurm calls those that it knows.

mod mig_mode;

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

use plugin_front::{Real, RealError, around, forward};
use plugin_rt::{Chain, guard_ok, log};
use slurm_tables::Version;

plugin_rt::exported_text!(plugin_name, "Tessera: whole GPUs from gpu/nvml");
plugin_rt::exported_text!(plugin_type, "gpu/nvml");
plugin_rt::exported_text!(tessera_version, env!("CARGO_PKG_VERSION"));
plugin_rt::stamped_version!(fn stamped);

type Any = *mut c_void;
const SUCCESS: c_int = 0;
const ERROR: c_int = -1;

/// Slurm's own gpu_nvml.so.
static REAL: Real = Real::new("gpu_nvml.so");

/// Names of the functions that Slurm's own plugin must have in this version.
fn all_names(slurm: Version) -> impl Iterator<Item = &'static str> {
    ["init", "fini", "gpu_p_get_system_gpu_list"].into_iter().chain(names(slurm))
}

around!(fn init() -> c_int, else SUCCESS, |real| {
    plugin_rt::install_panic_hook();
    let slurm = Version(stamped());
    match guard_ok("init", Ok(()), || REAL.load(slurm, &mut all_names(slurm))) {
        Ok(()) => real(),
        Err(why) => without(slurm, &why),
    }
});

/// Begins without Slurm's own plugin. From 26.05 Slurm looks for the file before it asks for it: there a node without one has no GPUs by
/// NVML, and slurmd goes on to the next kind. Before that, slurmd does not start.
fn without(slurm: Version, why: &RealError) -> c_int {
    if slurm.since(26, 5) && matches!(why, RealError::NotFound { .. }) {
        log::info(format_args!("gpu plugin: no GPUs are found by NVML: {}", Chain(why)));
        return SUCCESS;
    }
    log::error(format_args!("gpu plugin: {}", Chain(why)));
    ERROR
}

around!(
    /// Lists whole GPUs.
    fn gpu_p_get_system_gpu_list(node: Any) -> Any,
    else null_mut(),
    |real| {
        let hidden = guard_ok("get_system_gpu_list", None, || REAL.handle().and_then(mig_mode::hide));
        let gpus = real();
        guard_ok("get_system_gpu_list", (), || drop(hidden));
        gpus
    }
);

forward! {
    (always) {
        fn gpu_p_step_hardware_init(gpus: Any, frequencies: *mut c_char) -> (), else ();
        fn gpu_p_step_hardware_fini() -> (), else ();
        fn gpu_p_test_cpu_conv(cpus: *mut c_char) -> *mut c_char, else null_mut();
        fn gpu_p_energy_read(index: u32, status: Any) -> c_int, else SUCCESS;
        fn gpu_p_get_device_count(count: *mut u32) -> (), else ();
    }
    (until 24, 5) {
        fn gpu_p_reconfig() -> c_int, else SUCCESS;
    }
    (since 23, 2) {
        fn gpu_p_usage_read(process: c_int, data: Any) -> c_int, else SUCCESS;
    }
}

around!(fn fini() -> c_int, else SUCCESS, |real| real());
