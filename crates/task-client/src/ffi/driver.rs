//! The driver's own functions: never those that this library exports in their place.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::interpose::dlsym::real_dlsym;

static LIBRARY: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// The driver, if the process has loaded it or `may_load` it now. It is never unloaded again: addresses of its functions
/// are kept.
fn library(may_load: bool) -> Option<*mut c_void> {
    let known = LIBRARY.load(Ordering::Acquire);
    if !known.is_null() {
        return Some(known);
    }
    let flags = libc::RTLD_NOW | if may_load { 0 } else { libc::RTLD_NOLOAD };
    // SAFETY: dlopen(3): a valid string and flags. CUDA's initialisers are what the program asks for anyway.
    let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), flags) };
    if !library.is_null() {
        LIBRARY.store(library, Ordering::Release);
    }
    (!library.is_null()).then_some(library)
}

/// Whether the process has loaded the driver.
pub(crate) fn is_loaded() -> bool {
    library(false).is_some()
}

/// A function of the driver by its exported name; `None` if this driver does not have it, or if there is no driver. Loads
/// the driver only if it may.
pub(crate) fn function(name: &CStr, may_load: bool) -> Option<*mut c_void> {
    let found = real_dlsym(library(may_load)?, name);
    (!found.is_null()).then_some(found)
}

/// The same, remembered in `place`, which belongs to this function alone.
pub(crate) fn remembered(place: &AtomicPtr<c_void>, name: &CStr, may_load: bool) -> Option<*mut c_void> {
    let known = place.load(Ordering::Acquire);
    if !known.is_null() {
        return Some(known);
    }
    function(name, may_load).inspect(|found| place.store(*found, Ordering::Release))
}
