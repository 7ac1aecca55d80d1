//! Facts that SPANK does not give, from Slurm's own functions in the process. They are looked up by name: a Slurm without one
//! of them loads the plugin all the same.

use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};

use plugin_rt::{symbol, text};

use crate::gpu_plugins::gpu_plugins;

plugin_rt::stamped_version!(pub(super) fn stamped);

/// Tells whether Slurm's device cgroup holds each task to its own GPUs (`ConstrainDevices` with task/cgroup); `None`: this
/// Slurm does not say.
///
/// Source: `gres_use_local_device_index`, `bool (void)`, by which Slurm itself decides whether GPUs are counted from 0
/// [22.05 `src/common/gres.c`, 24.11 `src/interfaces/gres.c`].
pub(super) fn fences_devices() -> Option<bool> {
    let function = symbol(c"gres_use_local_device_index")?;
    // SAFETY: Slurm's function of that name has this type in every series that has it.
    let function: extern "C" fn() -> bool = unsafe { std::mem::transmute(function) };
    Some(function())
}

/// Tells whether this is a srun with `--quiet`.
///
/// Source: srun's global `opt`, and `char *slurm_option_get(slurm_opt_t *, const char *)`, which prints the number of
/// `--quiet` options [22.05 and 24.11 `src/common/slurm_opt.c`]. Nothing here knows what is in `opt`.
pub(super) fn srun_is_quiet() -> bool {
    option_of_srun(c"quiet").is_some_and(|count| count != "0")
}

/// Value of `--gpu-bind` of this srun; `None` without it, and in other commands.
pub(super) fn gpu_bind_of_srun() -> Option<String> {
    option_of_srun(c"gpu-bind").filter(|bind| !bind.is_empty() && bind != "unset")
}

/// Tells whether this is a srun with `--exact` that names no GRES: Slurm then gives its step all of the job's.
pub(super) fn srun_takes_all_gres() -> bool {
    let given = |name| option_of_srun(name).filter(|value| !value.is_empty() && value != "unset");
    given(c"exact").is_some() && given(c"gres").is_none()
}

fn option_of_srun(name: &CStr) -> Option<String> {
    let options = symbol(c"opt").filter(|at| is_of_srun(*at))?;
    let get = symbol(c"slurm_option_get")?;
    // SAFETY: Slurm's function of that name has this type in every series that has it.
    let get: extern "C" fn(*mut c_void, *const c_char) -> *const c_char = unsafe { std::mem::transmute(get) };
    let value = get(options.as_ptr(), name.as_ptr());
    // SAFETY: null, or a NUL-terminated string that Slurm has allocated for its caller. These bytes stay until srun ends.
    unsafe { text(value) }
}

/// Tells whether this slurmd has found its GPUs with Slurm's own gpu_nvml.so, with no plugin of Tessera's in front that hides instances
/// from it. slurmd loads its GPU plugin before SPANK's [22.05 to 26.05 `slurmd/slurmd.c`, `_slurmd_init`].
pub(super) fn detects_gpus() -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let loaded = gpu_plugins(&maps);
    !loaded.is_empty() && !loaded.into_iter().any(hides_instances)
}

/// Tells whether a loaded gpu_nvml.so is Tessera's, and hides instances.
fn hides_instances(file: &str) -> bool {
    let Ok(file) = CString::new(file) else { return false };
    // SAFETY: dlopen(3) of a file that is loaded already, which runs nothing.
    let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    let Some(handle) = NonNull::new(handle) else { return false };
    // SAFETY: dlsym(3) with that handle and a NUL-terminated name.
    let flag = NonNull::new(unsafe { libc::dlsym(handle.as_ptr(), c"tessera_hides_instances".as_ptr()) });
    // SAFETY: Tessera's plugin has an atomic byte of that name, 0 or 1, and no other file has one.
    let hides =
        flag.is_some_and(|flag| unsafe { flag.cast::<AtomicU8>().as_ref() }.load(Ordering::Acquire) == 1);
    // SAFETY: dlclose(3): the handle from above; the plugin keeps itself loaded.
    let _stays_loaded = unsafe { libc::dlclose(handle.as_ptr()) };
    hides
}

/// Tells whether an address lies in the program `srun` itself, not in a library with a variable of that name.
fn is_of_srun(at: NonNull<c_void>) -> bool {
    // SAFETY: all-zero is a valid value of this struct of pointers.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: dladdr(3) takes any address and fills in the struct.
    let known = unsafe { libc::dladdr(at.as_ptr(), &raw mut found) } != 0;
    // SAFETY: dladdr(3): null, or a NUL-terminated name that stays while the object is loaded.
    let name = unsafe { text(found.dli_fname) };
    known && name.is_some_and(|name| Path::new(&name).file_name() == Some(OsStr::new("srun")))
}
