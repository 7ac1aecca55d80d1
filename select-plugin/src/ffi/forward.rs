//! One forwarding function per symbol.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::real;

/// A symbol of Slurm's own plugin, looked up at its first use.
pub(super) struct Slot {
    name: &'static str,
    address: AtomicPtr<c_void>,
}

impl Slot {
    /// A symbol by its name, which ends in a NUL.
    pub(super) const fn new(name: &'static str) -> Self {
        Self { name, address: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Its address; `None` where Slurm's own plugin is not loaded or lacks it.
    pub(super) fn get(&self) -> Option<ptr::NonNull<c_void>> {
        if let Some(known) = ptr::NonNull::new(self.address.load(Ordering::Relaxed)) {
            return Some(known);
        }
        let name = CStr::from_bytes_with_nul(self.name.as_bytes()).ok()?;
        let found = real::symbol(name)?;
        self.address.store(found.as_ptr(), Ordering::Relaxed);
        Some(found)
    }
}

/// Calls a symbol of Slurm's own plugin: `call_real!(select_p_job_fini(job: *mut T) -> c_int, else SLURM_ERROR)`.
macro_rules! call_real {
    ($name:ident($($arg:ident: $ty:ty),*) -> $ret:ty, else $missing:expr) => {{
        static SLOT: $crate::ffi::forward::Slot =
            $crate::ffi::forward::Slot::new(concat!(stringify!($name), "\0"));
        match SLOT.get() {
            Some(address) => {
                // SAFETY: the prototype is the one in select.h of the version this plugin was built for; pointers
                // are passed on untouched.
                let real = unsafe {
                    std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($ty),*) -> $ret>(
                        address.as_ptr(),
                    )
                };
                // SAFETY: the caller's promise, passed on: the arguments are those Slurm gave.
                unsafe { real($($arg),*) }
            }
            None => $missing,
        }
    }};
}

/// Defines exported functions that only forward, and the list of their names.
macro_rules! forward {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty, else $missing:expr;)*) => {
        /// Names of the functions that are forwarded here to Slurm's own plugin.
        pub(super) const NAMES: &[&str] = &[$(stringify!($name)),*];
        $(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
            call_real!($name($($arg: $ty),*) -> $ret, else $missing)
        }
        )*
    };
}
