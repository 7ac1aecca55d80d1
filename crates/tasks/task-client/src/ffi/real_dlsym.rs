//! The `dlsym` behind the one that this library exports.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

/// The version of the symbol in the C library's first release for this architecture, which the C library keeps: glibc's
/// `Versions` and `shlib-versions`.
const FIRST_VERSION: &CStr = if cfg!(target_arch = "x86_64") { c"GLIBC_2.2.5" } else { c"GLIBC_2.17" };

/// The C library's `dlsym`, or another preloaded library's after us.
pub(super) static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Looks the C library's `dlsym` up, and remembers it.
pub(super) extern "C" fn resolve() -> *mut c_void {
    // SAFETY: dlvsym(3): valid strings.
    let found = unsafe { dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), FIRST_VERSION.as_ptr()) };
    NEXT.store(found, Ordering::Release);
    found
}

/// The C library's `dlsym`, for a handle.
pub(super) fn real_dlsym(handle: *mut c_void, name: &CStr) -> *mut c_void {
    let known = NEXT.load(Ordering::Acquire);
    let next = if known.is_null() { resolve() } else { known };
    if next.is_null() {
        return next;
    }
    // SAFETY: dlfcn.h: this is the type of dlsym.
    let call = unsafe {
        std::mem::transmute::<*mut c_void, extern "C" fn(*mut c_void, *const c_char) -> *mut c_void>(next)
    };
    call(handle, name.as_ptr())
}
