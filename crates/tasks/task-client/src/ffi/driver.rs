//! The driver's own functions: never those that this library exports in their place.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::real_dlsym::real_dlsym;

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

/// Tells whether the process has loaded the driver.
///
/// While it has not, the C library is not asked. An attempt to open what is not there searches the linker's cache, and a child
/// that is forked meanwhile by another thread has half of that cache and dies when it opens or looks up something itself.
pub(crate) fn is_loaded() -> bool {
    // Where there is no /proc, the C library alone knows.
    let may_be = || std::fs::read("/proc/self/maps").map_or(true, |maps| has_driver(&maps));
    !LIBRARY.load(Ordering::Acquire).is_null() || may_be() && library(false).is_some()
}

/// Tells whether a `/proc/PID/maps` may name the driver. Its file has the driver's version at the end of its name.
fn has_driver(maps: &[u8]) -> bool {
    const NAME: &[u8] = b"/libcuda.so";
    maps.windows(NAME.len()).any(|part| part == NAME)
}

/// A function of the driver by its exported name; `None` if this driver does not have it, or if there is no driver. Loads
/// the driver only if it may. See [`is_loaded`] before asking for what is probably not loaded.
pub(crate) fn function(name: &CStr, may_load: bool) -> Option<*mut c_void> {
    let found = real_dlsym(library(may_load)?, name);
    (!found.is_null()).then_some(found)
}

/// Looks a function up once and remembers it in `place`, which belongs to this function alone.
pub(crate) fn remembered(place: &AtomicPtr<c_void>, name: &CStr, may_load: bool) -> Option<*mut c_void> {
    let known = place.load(Ordering::Acquire);
    if !known.is_null() {
        return Some(known);
    }
    if !may_load && !is_loaded() {
        return None;
    }
    function(name, may_load).inspect(|found| place.store(*found, Ordering::Release))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_is_found_among_mapped_files() {
        let line = |file: &str| format!("7f0000000000-7f0000001000 r-xp 00000000 08:01 123    {file}\n");
        let has = |files: &[&str]| {
            let maps: String = files.iter().map(|file| line(file)).collect();
            has_driver(maps.as_bytes())
        };
        assert!(has(&["/usr/bin/x", "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15", "[heap]"]));
        assert!(has(&["/lib/libcuda.so.1"]) && has(&["/lib/libcuda.so.1 (deleted)"]));
        assert!(!has(&["/usr/lib/libcudart.so.12", "/opt/mylibcuda.so.1", "[stack]"]) && !has(&[]));
        assert!(!is_loaded());
    }
}
