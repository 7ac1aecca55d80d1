//! A function of the driver that this library stands before.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::ffi::driver;

/// A function.
pub(crate) struct Entry {
    /// The exported name.
    pub(crate) name: &'static CStr,
    /// The version of CUDA, times 1000, since which `cuGetProcAddress` means this function.
    pub(super) since: i32,
    /// Ours.
    pub(crate) ours: *mut c_void,
    real: &'static AtomicPtr<c_void>,
}

// SAFETY: `ours` is the address of a function, which everybody may read.
unsafe impl Sync for Entry {}

impl Entry {
    pub(super) const fn new(
        name: &'static CStr,
        since: i32,
        ours: *mut c_void,
        real: &'static AtomicPtr<c_void>,
    ) -> Entry {
        Entry { name, since, ours, real }
    }

    /// The driver's, if it has it and is loaded.
    pub(crate) fn real(&self) -> Option<*mut c_void> {
        real(self.real, self.name, false)
    }

    /// The name without a version, as programs write it, and whether it is of the form for a default stream per thread.
    pub(super) fn base(&self) -> (&'static str, bool) {
        let name = self.name.to_str().unwrap_or_default();
        let (name, per_thread) = match name.strip_suffix("_ptsz") {
            Some(name) => (name, true),
            None => (name, false),
        };
        let base = name.rsplit_once("_v").filter(|(_, version)| version.parse::<u32>().is_ok());
        (base.map_or(name, |(base, _)| base), per_thread)
    }
}

/// An address that was looked up before, or is now.
#[inline(always)]
pub(super) fn real(
    known: &'static AtomicPtr<c_void>,
    name: &'static CStr,
    may_load: bool,
) -> Option<*mut c_void> {
    let address = known.load(Ordering::Acquire);
    if address.is_null() { look_up(known, name, may_load) } else { Some(address) }
}

/// Apart, so that a launch is a load, a test and a jump.
#[cold]
#[inline(never)]
fn look_up(known: &'static AtomicPtr<c_void>, name: &'static CStr, may_load: bool) -> Option<*mut c_void> {
    let found = driver::function(name, may_load)?;
    known.store(found, Ordering::Release);
    Some(found)
}
