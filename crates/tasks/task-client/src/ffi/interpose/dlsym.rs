//! `dlsym`, for programs that look up the driver's functions by it.
//!
//! Everything that is not one of our functions must reach the C library's `dlsym` by a jump, not by a call: what `RTLD_NEXT` and
//! `RTLD_DEFAULT` mean depends on who called. So the entry is a few instructions that change no register and take no lock. A
//! lookup of another name than `cu…` does nothing else, also from within an allocator that looks itself up.
//!
//! The entry is written for x86-64 and for AArch64 (GH200). Elsewhere there is none: the library compiles, programs that link
//! with the driver are counted, and those that look its functions up are not.
#![cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    allow(dead_code, reason = "the entry calls it")
)]

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::entry;
use super::entry::Entry;
use crate::ffi::real_dlsym::{NEXT, real_dlsym, resolve};
use crate::ffi::{driver, process};
use crate::mode::Mode;

/// Answer of `dlsym`, if `is_decided`; else the C library's answer.
#[repr(C)]
struct LookedUp {
    address: *mut c_void,
    is_decided: usize,
}

const UNDECIDED: LookedUp = LookedUp { address: std::ptr::null_mut(), is_decided: 0 };

extern "C" fn answer(handle: *mut c_void, name: *const c_char) -> LookedUp {
    // SAFETY: dlsym(3): the caller's name is a C string, of which the entry has read two bytes.
    let name = unsafe { CStr::from_ptr(name) };
    let Some(entry) = entry(name) else { return UNDECIDED };
    let decided = catch_unwind(AssertUnwindSafe(|| decide(handle, name, entry)));
    decided.ok().flatten().map_or(UNDECIDED, |address| LookedUp { address, is_decided: 1 })
}

fn decide(handle: *mut c_void, name: &CStr, entry: &'static Entry) -> Option<*mut c_void> {
    if handle == libc::RTLD_DEFAULT {
        if driver::is_loaded() {
            return None;
        }
        // If this library alone has it, a program that asks like this whether there is a driver must hear no, and `dlerror`
        // says so. RTLD_NEXT is what comes after this library.
        let next = real_dlsym(libc::RTLD_NEXT, name);
        return next.is_null().then_some(next);
    }
    let found = real_dlsym(handle, name);
    // The handle may be the program's own, which has this library's function.
    let is_anothers = !found.is_null() && found != entry.ours;
    let is_drivers = is_anothers && process::mode() == Mode::Whole && entry.real() == Some(found);
    is_drivers.then_some(entry.ours)
}

/// The address of a symbol: dlsym(3).
///
/// # Safety
///
/// As dlsym(3) says: a handle of dlopen's or a special one, and a C string.
#[cfg(target_arch = "x86_64")]
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

/// The same on AArch64: the two words of [`LookedUp`] come in x0 and x1, and x9 and x16 are free at a function's entry.
///
/// # Safety
///
/// As dlsym(3) says: a handle of dlopen's or a special one, and a C string.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    std::arch::naked_asm!(
        "cmn x0, #1", // RTLD_NEXT
        "b.eq 2f",
        "ldrb w9, [x1]",
        "cmp w9, #99", // 'c'
        "b.ne 2f",
        "ldrb w9, [x1, #1]",
        "cmp w9, #117", // 'u'
        "b.ne 2f",
        "stp x29, x30, [sp, #-32]!",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "bl {answer}",
        "cbnz x1, 4f",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "2:",
        "adrp x16, {next}",
        "ldr x16, [x16, #:lo12:{next}]",
        "cbnz x16, 3f",
        "stp x29, x30, [sp, #-32]!",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "bl {resolve}",
        "mov x16, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "3:",
        "br x16",
        "4:",
        "ldp x29, x30, [sp], #32",
        "ret",
        answer = sym answer,
        resolve = sym resolve,
        next = sym NEXT,
    )
}
