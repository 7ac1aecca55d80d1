//! A function per symbol that Slurm calls, round Slurm's own function of that name.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::Real;

/// A symbol of Slurm's own plugin, looked up at its first use.
#[derive(Debug)]
pub struct Slot {
    real: &'static Real,
    name: &'static str,
    address: AtomicPtr<c_void>,
}

impl Slot {
    /// A symbol by its name, which ends in a NUL.
    #[must_use]
    pub const fn new(real: &'static Real, name: &'static str) -> Self {
        Self { real, name, address: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Address; `None` where Slurm's own plugin is not loaded or lacks it.
    pub fn get(&self) -> Option<ptr::NonNull<c_void>> {
        if let Some(known) = ptr::NonNull::new(self.address.load(Ordering::Relaxed)) {
            return Some(known);
        }
        let name = CStr::from_bytes_with_nul(self.name.as_bytes()).ok()?;
        let found = self.real.symbol(name)?;
        self.address.store(found.as_ptr(), Ordering::Relaxed);
        Some(found)
    }
}

/// Exports a function that Slurm calls: `around!(fn select_p_job_fini(job: *mut T) -> c_int, else SLURM_ERROR, |real| …)`. Its body asks
/// Slurm's own function by `real()`, which passes the arguments on and gives the value behind `else` where there is no such function.
/// The module that uses it has a static `REAL`: Slurm's own plugin.
#[macro_export]
macro_rules! around {
    ($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty, else $missing:expr, |$real:ident| $body:expr) => {
        $(#[$doc])*
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
            static SLOT: $crate::Slot =
                $crate::Slot::new(&REAL, concat!(stringify!($name), "\0"));
            let $real = || match SLOT.get() {
                Some(address) => {
                    // SAFETY: the prototype is the one in Slurm's header of this kind of plugin, if need be with an argument more than an older Slurm gives
                    // and takes; pointers are passed on untouched.
                    let real = unsafe {
                        std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($ty),*) -> $ret>(
                            address.as_ptr(),
                        )
                    };
                    // SAFETY: the caller's promise, passed on: the arguments are those Slurm gave.
                    unsafe { real($($arg),*) }
                }
                None => $missing,
            };
            $body
        }
    };
}

/// Exports functions that only forward, and lists their names with the series of Slurm that ask for them.
#[macro_export]
macro_rules! forward {
    ($(($($when:tt)*) { $(fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty, else $missing:expr;)* })*) => {
        /// Names of the functions that are only forwarded, in this version.
        pub(super) fn names(slurm: $crate::Version) -> impl Iterator<Item = &'static str> {
            let groups: &[(bool, &[&'static str])] =
                &[$(($crate::asked!(slurm, $($when)*), &[$(stringify!($name)),*])),*];
            let asked: Vec<&'static str> =
                groups.iter().filter(|(asked, _)| *asked).flat_map(|(_, names)| names.iter().copied()).collect();
            asked.into_iter()
        }
        $($($crate::around!(fn $name($($arg: $ty),*) -> $ret, else $missing, |real| real());)*)*
    };
}

/// Tells whether a version asks for a group of functions: `always`, `until 23, 2` or `since 26, 5`.
#[macro_export]
macro_rules! asked {
    ($slurm:ident, always) => {
        true
    };
    ($slurm:ident, until $major:literal, $minor:literal) => {
        !$slurm.since($major, $minor)
    };
    ($slurm:ident, since $major:literal, $minor:literal) => {
        $slurm.since($major, $minor)
    };
}
