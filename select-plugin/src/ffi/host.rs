//! What this plugin takes from the process that loads it: globals and functions of slurmctld and libslurmfull.
//!
//! They are looked up by name when first needed, never linked: the same file is loaded by slurmd and the commands,
//! which lack some of them, and unit tests have none.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use super::sys;

/// The address of a symbol of the hosting process; `None` if it has none of that name.
pub(super) fn symbol(name: &CStr) -> Option<ptr::NonNull<c_void>> {
    // SAFETY: POSIX dlsym: RTLD_DEFAULT and a NUL-terminated name.
    ptr::NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}

/// Whether the process is slurmctld, as Slurm itself tells by its program name.
pub(super) fn in_slurmctld() -> bool {
    type Ask = unsafe extern "C" fn() -> bool;
    symbol(c"running_in_slurmctld").is_some_and(|f| {
        // SAFETY: src/common/run_in_daemon.h: `extern bool running_in_slurmctld(void)`.
        let ask = unsafe { std::mem::transmute::<*mut c_void, Ask>(f.as_ptr()) };
        // SAFETY: as above; it reads the program's name.
        unsafe { ask() }
    })
}

/// One string of `slurm_conf`, copied. Slurm fills it before it loads any plugin.
pub(super) fn conf_string(field: fn(&sys::slurm_conf_t) -> *mut c_char) -> Option<String> {
    let conf = symbol(c"slurm_conf")?.cast::<sys::slurm_conf_t>();
    // SAFETY: src/common/read_config.h: `extern slurm_conf_t slurm_conf`, alive as long as the process.
    let text = field(unsafe { conf.as_ref() });
    if text.is_null() {
        return None;
    }
    // SAFETY: Slurm's strings are NUL-terminated; it is copied before anything can change it.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}
