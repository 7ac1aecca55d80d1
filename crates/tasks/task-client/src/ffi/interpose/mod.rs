//! The driver's functions that stand before the driver's own where the library is preloaded.
//!
//! A program reaches them by linking, by `dlsym` (`dlsym.rs`) and by `cuGetProcAddress` (`init.rs`). Each asks `enter` whether
//! this process's allocations are counted; if not, or if the call comes from within another of them, it passes.

mod arrays;
mod contexts;
mod dlsym;
mod entry;
mod init;
mod launch;
mod memory;
mod physical;

use std::cell::Cell;
use std::ffi::{CStr, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use entry::Entry;

use super::process::{self, Process};
use super::{cuda, tell};
use crate::account::{Account, Made};
use crate::client::Client;
use crate::ledger::Name;
use crate::no_device::NoDevice;

const SUCCESS: c_uint = 0;
const OUT_OF_MEMORY: c_uint = 2;
const NO_DEVICE: c_uint = 100;
const INVALID_DEVICE: c_uint = 101;
const NOT_FOUND: c_uint = 500;
const UNKNOWN: c_uint = 999;

thread_local! {
    /// Set while the thread is within one of our functions: the driver's calls to itself are not counted twice.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A thread within one of our functions.
struct Inside;

impl Inside {
    fn enter() -> Option<Inside> {
        // A thread that ends has no such variable any more: its calls pass.
        let was_inside = INSIDE.try_with(|inside| inside.replace(true)).unwrap_or(true);
        (!was_inside).then_some(Inside)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|inside| inside.set(false));
    }
}

/// A call whose effect is counted.
struct Here {
    process: &'static Process,
    account: &'static Account,
    _inside: Inside,
}

/// The account of this process, if it has one and the call comes from outside.
fn enter() -> Option<Here> {
    if !process::is_anything_held() {
        return None;
    }
    let inside = Inside::enter()?;
    let process = process::process()?;
    let account = process.held()?.account.as_ref()?;
    Some(Here { process, account, _inside: inside })
}

impl Here {
    fn client(&self) -> &'static Client {
        &self.process.client
    }

    /// Counts an allocation and lets the driver make it. `name` says what the driver answered.
    fn allocate(
        &self,
        bytes: u64,
        make: impl FnOnce() -> c_uint,
        made: impl FnOnce() -> Option<(Name, u64)>,
    ) -> c_uint {
        let mut answer = OUT_OF_MEMORY;
        let counted = self.account.allocate(bytes, self.client(), || {
            answer = make();
            let (name, bytes) = (answer == SUCCESS).then(made).flatten()?;
            Some(Made { name, bytes, context: cuda::current_context() })
        });
        match counted {
            Err(why) => self.refuse(bytes, &why),
            Ok(()) if answer == OUT_OF_MEMORY => {
                let text = "the driver has no memory left for this process, although its job was promised it: a process \
                            on the device uses more than it was given, or this one allocates what is not counted";
                tell(&format!("an allocation of {} failed: {text}", mib(bytes)));
            }
            Ok(()) => {}
        }
        answer
    }

    fn refuse(&self, bytes: u64, why: &NoDevice) {
        let (total, free) = self.account.total_and_free();
        let why = match why {
            NoDevice::Refused(refused) => refused.why.as_str().to_owned(),
            NoDevice::NoBroker | NoDevice::Withdrawn => "the node's task broker does not answer".to_owned(),
        };
        tell(&format!(
            "an allocation of {} failed: this process may hold {} and has {} left, and it gets no more: {why}. Ask for all \
             that a process needs with --gpu-mem.",
            mib(bytes),
            mib(total),
            mib(free),
        ));
    }

    /// Counts back what `free` lets the driver free.
    fn free(&self, name: Name, free: impl FnOnce() -> c_uint) -> c_uint {
        let mut answer = UNKNOWN;
        self.account.free(name, self.client(), || {
            answer = free();
            answer == SUCCESS
        });
        answer
    }
}

/// Bytes as people read them.
fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

/// Runs the whole of an entry: nothing unwinds into C.
fn guard(body: impl FnOnce() -> c_uint) -> c_uint {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(UNKNOWN)
}

/// Reads C's value at an address.
fn read<T: Copy>(from: *const T) -> Option<T> {
    // SAFETY: cuda.h: a pointer argument is null or points to a T of the caller's or, after success, of the driver's answer.
    // All T used here are plain C data.
    (!from.is_null()).then(|| unsafe { from.read_unaligned() })
}

/// Replaces what C has at an address.
fn write<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: cuda.h: an out argument is null or points to memory for one T of the caller's.
        unsafe { to.write_unaligned(value) };
    }
}

/// Defines functions that stand before the driver's, and `entries()`, the list of them. `since` is the version of CUDA, times
/// 1000, since which `cuGetProcAddress` means this one by its base name. `|real|` is the driver's function.
macro_rules! wrappers {
    ($(fn $name:ident since $since:literal ($($arg:ident: $ty:ty),* $(,)?) |$real:ident| $body:block)*) => {
        #[allow(non_upper_case_globals, reason = "the driver's names")]
        mod real {
            $(pub(super) static $name: std::sync::atomic::AtomicPtr<std::ffi::c_void> =
                std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());)*
        }

        /// The functions of this module.
        pub(super) fn entries() -> &'static [crate::ffi::interpose::entry::Entry] {
            static ENTRIES: &[crate::ffi::interpose::entry::Entry] = &[$(
                crate::ffi::interpose::entry::Entry::new(
                    crate::ffi::interpose::c_name(concat!(stringify!($name), "\0")),
                    $since,
                    $name as *const () as *mut std::ffi::c_void,
                    &real::$name,
                )
            ),*];
            ENTRIES
        }

        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name($($arg: $ty),*) -> std::ffi::c_uint {
                let name = const { crate::ffi::interpose::c_name(concat!(stringify!($name), "\0")) };
                let Some(address) = crate::ffi::interpose::entry::real(&real::$name, name, true) else {
                    return crate::ffi::interpose::NOT_FOUND;
                };
                // SAFETY: cuda.h: the function of this name has this C signature.
                let $real = unsafe {
                    std::mem::transmute::<*mut std::ffi::c_void, extern "C" fn($($ty),*) -> std::ffi::c_uint>(address)
                };
                $body
            }
        )*
    };
}
use wrappers;

/// A name and its NUL as a C string.
const fn c_name(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

/// A pointer that is only passed on.
type Opaque = *mut c_void;

/// All of them.
fn wrapped() -> impl Iterator<Item = &'static Entry> {
    [
        init::entries(),
        contexts::entries(),
        memory::entries(),
        arrays::entries(),
        physical::entries(),
        launch::entries(),
    ]
    .into_iter()
    .flatten()
}

/// The one of this name.
fn entry(name: &CStr) -> Option<&'static Entry> {
    wrapped().find(|entry| entry.name == name)
}

/// The one whose function the driver has at this address.
fn at(address: *mut c_void) -> Option<&'static Entry> {
    wrapped().find(|entry| entry.real() == Some(address))
}

/// The names of all, for tests and documents.
#[must_use]
pub fn names() -> Vec<&'static str> {
    wrapped().filter_map(|entry| entry.name.to_str().ok()).collect()
}
