//! Everything C: the symbols that Slurm looks up, each handed on to Slurm's own plugin.

mod real;
mod slot;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::transmute_copy;
use std::ptr;

use plugin_rt::{Chain, exported_text, guard_ok, log, stamped_version};

exported_text!(plugin_name, "Tessera: gpu/nvml that lists whole GPUs");
exported_text!(plugin_type, "gpu/nvml");
stamped_version!(fn version);

const SUCCESS: c_int = 0;
const ERROR: c_int = -1;

/// Hands a call on, if Slurm's own plugin has this function.
macro_rules! forward {
    ($name:ident($($arg:ident: $kind:ty),*) $(-> $back:ty, $otherwise:expr)?) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $kind),*) $(-> $back)? {
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!(),
            };
            let Some(address) = real::symbol(NAME) else { return $($otherwise)? };
            // SAFETY: gpu_nvml.c of every series from 22.05 to 26.05: the function of this name has these parameters.
            let own: unsafe extern "C" fn($($kind),*) $(-> $back)? = unsafe { transmute_copy(&address) };
            // SAFETY: Slurm's own arguments for it.
            unsafe { own($($arg),*) }
        }
    };
}

/// Loads Slurm's own plugin. If that fails, Slurm passes over this file, as over any plugin that does not start.
#[unsafe(no_mangle)]
extern "C" fn init() -> c_int {
    guard_ok("init", ERROR, || match real::load(version()) {
        Ok(()) => SUCCESS,
        Err(why) => {
            log::error(format_args!("gpu plugin: left to Slurm: {}", Chain(&why)));
            ERROR
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn fini() -> c_int {
    guard_ok("fini", (), real::finish);
    SUCCESS
}

forward!(gpu_p_reconfig() -> c_int, SUCCESS);
forward!(gpu_p_get_system_gpu_list(node_config: *mut c_void) -> *mut c_void, ptr::null_mut());
forward!(gpu_p_step_hardware_init(usable: *mut c_void, freq: *mut c_char));
forward!(gpu_p_step_hardware_fini());
forward!(gpu_p_test_cpu_conv(range: *mut c_char) -> *mut c_char, ptr::null_mut());
forward!(gpu_p_energy_read(index: c_uint, gpu: *mut c_void) -> c_int, SUCCESS);
forward!(gpu_p_get_device_count(count: *mut c_uint));
forward!(gpu_p_usage_read(process: c_int, data: *mut c_void) -> c_int, SUCCESS);
