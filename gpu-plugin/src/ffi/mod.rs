//! The symbols that Slurm reads and calls.
//!
//! `src/plugins/gpu/nvml/gpu_nvml.c` has their prototypes; the symbols that Slurm asks for are listed in `src/common/gpu.c` (22.05) or
//! `src/interfaces/gpu.c`. All are exported in every version: Slurm calls those that it knows.

mod mig_mode;

use std::error::Error;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU8, Ordering};

use plugin_front::{Real, around, forward};
use plugin_rt::{Chain, guard_ok, log};
use slurm_tables::Version;

use crate::managed;
use mig_mode::Hidden;

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
    // After an error, Slurm loads its own by itself, if there is one: it goes on to the next directory of PluginDir.
    if guard_ok("init", false, || load(slurm)) { real() } else { ERROR }
});

/// Loads Slurm's own plugin; false, and a line in the log, if that is not possible.
fn load(slurm: Version) -> bool {
    let loaded = REAL.load(slurm, &mut all_names(slurm));
    if let Err(why) = &loaded {
        log::error(format_args!("gpu plugin: {}", Chain(why)));
    }
    loaded.is_ok()
}

/// Says to `spank_tessera.so`, which asks by this name, whether instances were hidden when slurmd last looked for GPUs: 0 or 1.
#[unsafe(no_mangle)]
static tessera_hides_instances: AtomicU8 = AtomicU8::new(0);

around!(
    /// Lists GPUs: those that Tessera manages as whole ones.
    fn gpu_p_get_system_gpu_list(node: Any) -> Any,
    else null_mut(),
    |real| {
        let hidden = guard_ok("get_system_gpu_list", None, hide);
        tessera_hides_instances.store(u8::from(hidden.is_some()), Ordering::Release);
        let gpus = real();
        guard_ok("get_system_gpu_list", (), || drop(hidden));
        gpus
    }
);

/// Hides the instances of this node's managed GPUs from Slurm's own plugin; `None`, and a line in the log, if there are no such GPUs or
/// that is not possible.
fn hide() -> Option<Hidden> {
    let handle = REAL.handle()?;
    let env = |name: &str| std::env::var(name).ok();
    let node = node_slurm::node_name(std::env::args(), &env, node_slurm::configured_node_name);
    let managed = match managed::gpus(node.as_deref(), &env) {
        Ok(managed) => managed,
        Err(why) if why.is_meant() => {
            log::verbose(format_args!("gpu plugin: slurmd takes MIG instances for GPUs: {}", Chain(&why)));
            return None;
        }
        Err(why) => return not_hidden(&why),
    };
    match mig_mode::stay_loaded().and_then(|()| mig_mode::hide(handle, managed)) {
        Ok(hidden) => {
            log::verbose("gpu plugin: slurmd sees whole GPUs: while it looks for them, MIG counts as off");
            Some(hidden)
        }
        Err(why) => not_hidden(&why),
    }
}

fn not_hidden(why: &dyn Error) -> Option<Hidden> {
    log::error(format_args!("gpu plugin: slurmd takes MIG instances for GPUs: {}", Chain(why)));
    None
}

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
