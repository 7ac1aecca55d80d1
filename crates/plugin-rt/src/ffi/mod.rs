//! The one call into Slurm: its variadic log functions, found in the hosting process.
//!
//! They are looked up rather than linked, so that the same crate works in slurmctld, slurmd and the commands, and
//! in tests where there is no Slurm. The symbols are those `slurm/spank.h` declares; libslurmfull has them all.

use std::ffi::{CStr, c_char, c_int};

use crate::log::Level;

/// `extern void slurm_info(const char *format, ...)` and its siblings (`slurm_error` returns an int, which a caller
/// may ignore in the C ABI).
type Printf = unsafe extern "C" fn(*const c_char, ...) -> c_int;

/// Hands one line to the hosting process; without Slurm it is dropped.
pub(crate) fn slurm_sink(level: Level, line: &CStr) {
    let name = match level {
        Level::Error => c"slurm_error",
        Level::Info => c"slurm_info",
        Level::Verbose => c"slurm_verbose",
        Level::Debug => c"slurm_debug",
        Level::User => c"slurm_spank_log",
    };
    if let Some(print) = resolve(name) {
        // SAFETY: slurm/spank.h: a printf-like function; the format is constant and takes one string, which is
        // NUL-terminated and outlives the call.
        unsafe { print(c"%s".as_ptr(), line.as_ptr()) };
    }
}

fn resolve(name: &CStr) -> Option<Printf> {
    // SAFETY: POSIX dlsym: RTLD_DEFAULT and a NUL-terminated name.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if symbol.is_null() {
        return None;
    }
    // SAFETY: only the log functions named above are asked for, and slurm/spank.h gives them this type.
    Some(unsafe { std::mem::transmute::<*mut libc::c_void, Printf>(symbol) })
}
