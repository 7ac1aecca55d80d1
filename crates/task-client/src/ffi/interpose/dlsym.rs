//! `dlsym`, for programs that look up the driver's functions by it.
//!
//! Everything that is not one of our functions must reach the C library's `dlsym` by a jump, not by a call: what `RTLD_NEXT` and
//! `RTLD_DEFAULT` mean depends on who called. So the entry is a few instructions that change no register and take no lock. A
//! lookup of another name than `cu…` does nothing else, also from within an allocator that looks itself up.

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::table::{Entry, entry};
use crate::ffi::{driver, process};
use crate::mode::Mode;

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

/// The C library's `dlsym`, or another preloaded library's after us.
static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn resolve() -> *mut c_void {
    // SAFETY: dlvsym(3): valid strings. This is the version of the symbol's first release on this architecture, which the
    // C library keeps.
    let found = unsafe { dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), c"GLIBC_2.2.5".as_ptr()) };
    NEXT.store(found, Ordering::Release);
    found
}

/// The C library's `dlsym`, for a handle.
pub(crate) fn real_dlsym(handle: *mut c_void, name: &CStr) -> *mut c_void {
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

/// What `dlsym` answers, if `is_decided`; else the C library's answer.
#[repr(C)]
struct Answer {
    address: *mut c_void,
    is_decided: usize,
}

const UNDECIDED: Answer = Answer { address: std::ptr::null_mut(), is_decided: 0 };

extern "C" fn answer(handle: *mut c_void, name: *const c_char) -> Answer {
    // SAFETY: dlsym(3): the caller's name is a C string, of which the entry has read two bytes.
    let name = unsafe { CStr::from_ptr(name) };
    let Some(entry) = entry(name) else { return UNDECIDED };
    let decided = catch_unwind(AssertUnwindSafe(|| decide(handle, name, entry)));
    decided.ok().flatten().map_or(UNDECIDED, |address| Answer { address, is_decided: 1 })
}

fn decide(handle: *mut c_void, name: &CStr, entry: &'static Entry) -> Option<*mut c_void> {
    if handle == libc::RTLD_DEFAULT {
        if driver::is_loaded() {
            return None;
        }
        // This library alone has it. A program that asks like this whether there is a driver must hear no.
        // SAFETY: dlopen(3): a valid string; the C library is there.
        let libc = unsafe { libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        return Some(real_dlsym(libc, name));
    }
    let found = real_dlsym(handle, name);
    let is_ours = !found.is_null() && process::mode() == Mode::Whole && entry.real() == Some(found);
    is_ours.then_some(entry.ours)
}

/// The address of a symbol: dlsym(3).
///
/// # Safety
///
/// As dlsym(3) says: a handle of dlopen's or a special one, and a C string.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    std::arch::naked_asm!(
        "cmp rdi, -1", // RTLD_NEXT
        "je 2f",
        "cmp byte ptr [rsi], 'c'",
        "jne 2f",
        "cmp byte ptr [rsi + 1], 'u'",
        "jne 2f",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {answer}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rdx, rdx",
        "jz 2f",
        "ret",
        "2:",
        "mov rax, qword ptr [rip + {next}]",
        "test rax, rax",
        "jnz 3f",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {resolve}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "3:",
        "jmp rax",
        answer = sym answer,
        resolve = sym resolve,
        next = sym NEXT,
    )
}
