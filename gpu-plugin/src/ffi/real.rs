//! Loads Slurm's own gpu_nvml.so.

use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::mem::transmute;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use plugin_rt::{log, own_file};
use slurmctld_rt::fit::conf_texts;

use super::slot;
use crate::find::{RealError, candidates};

/// Marks this plugin, so that a copy of it elsewhere in `PluginDir` is not taken for Slurm's.
#[unsafe(no_mangle)]
static tessera_gpu_marker: u8 = 1;

static HANDLE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Loads and starts Slurm's own plugin for the Slurm of this number.
pub(super) fn load(version: u32) -> Result<(), RealError> {
    let own = own_file().ok_or(RealError::NoPluginDir)?;
    let dirs = plugin_dirs(&own).ok_or(RealError::NoPluginDir)?;
    let mut opened = Err(RealError::NotFound { dirs: dirs.clone() });
    for path in candidates(&dirs, &own) {
        match open(path, version) {
            Ok(Some(handle)) => {
                opened = Ok(handle);
                break;
            }
            Ok(None) => {}
            Err(why) => opened = Err(why),
        }
    }
    let handle = opened?;
    // SAFETY: a handle that dlopen gave and that is never closed.
    if !unsafe { slot::replace(handle, c"nvmlDeviceGetMigMode", mig_mode as *const () as usize) } {
        log::error(
            "gpu plugin: Slurm's own gpu_nvml.so does not ask for the MIG mode: slurmd may take MIG instances for GPUs",
        );
    }
    HANDLE.store(handle.as_ptr(), Ordering::Release);
    if let Some(init) = symbol(c"init") {
        // SAFETY: gpu_nvml.c: `int init(void)`.
        let init: extern "C" fn() -> c_int = unsafe { transmute(init.as_ptr()) };
        if init() != 0 {
            HANDLE.store(ptr::null_mut(), Ordering::Release);
            return Err(RealError::Init);
        }
    }
    Ok(())
}

/// Ends Slurm's own plugin; its file stays loaded.
pub(super) fn finish() {
    if let Some(fini) = symbol(c"fini") {
        // SAFETY: gpu_nvml.c: `int fini(void)`, from 25.11 on `void fini(void)`: the answer is not looked at.
        let fini: extern "C" fn() = unsafe { transmute(fini.as_ptr()) };
        fini();
    }
    HANDLE.store(ptr::null_mut(), Ordering::Release);
}

/// Finds a symbol of Slurm's own plugin.
pub(super) fn symbol(name: &CStr) -> Option<NonNull<c_void>> {
    in_handle(NonNull::new(HANDLE.load(Ordering::Acquire))?, name)
}

/// Answers for `nvmlDeviceGetMigMode`: success, and MIG is neither on nor about to be.
unsafe extern "C" fn mig_mode(_device: *mut c_void, current: *mut c_uint, pending: *mut c_uint) -> c_int {
    for mode in [current, pending] {
        // SAFETY: nvml.h: two places that the caller has for the answer.
        if let Some(mode) = unsafe { mode.as_mut() } {
            *mode = 0;
        }
    }
    0
}

/// Gives `PluginDir`: the text in `slurm_conf` that names the directory of this plugin.
fn plugin_dirs(own: &Path) -> Option<String> {
    let dir = own.parent()?;
    conf_texts().into_iter().find(|text| text.split(':').any(|named| Path::new(named) == dir))
}

/// Opens a plugin; `None` if it is another copy of this one.
fn open(path: PathBuf, version: u32) -> Result<Option<NonNull<c_void>>, RealError> {
    let Ok(file) = CString::new(path.as_os_str().as_bytes()) else {
        return Err(RealError::Load { path, why: "its name has a NUL in it".to_owned() });
    };
    // SAFETY: dlopen of a plugin from a directory the admin named; lazily bound, as Slurm itself does (src/common/plugin.c).
    let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_LAZY) };
    let Some(handle) = NonNull::new(handle) else {
        return Err(RealError::Load { path, why: dl_error() });
    };
    if in_handle(handle, c"tessera_gpu_marker").is_some() {
        return Ok(None);
    }
    // SAFETY: src/common/plugin.c reads `const uint32_t plugin_version` of every plugin.
    let found = in_handle(handle, c"plugin_version").map(|at| unsafe { at.cast::<u32>().read() });
    if found == Some(version) { Ok(Some(handle)) } else { Err(RealError::OfAnother { path }) }
}

fn in_handle(handle: NonNull<c_void>, name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: POSIX dlsym: a handle that dlopen gave and that is never closed, and a NUL-terminated name.
    NonNull::new(unsafe { libc::dlsym(handle.as_ptr(), name.as_ptr()) })
}

fn dl_error() -> String {
    // SAFETY: POSIX dlerror: a string or null, valid until the next dl call of this thread.
    let text = unsafe { libc::dlerror() };
    // SAFETY: null or NUL-terminated, copied at once.
    unsafe { plugin_rt::text(text) }.unwrap_or_else(|| "unknown error of the dynamic linker".to_owned())
}
