//! Replaces the address by which one loaded file calls a function of another.
//!
//! Only the one file's table changes. Whoever else in the process calls that function reaches the true one.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{self, NonNull};

const RTLD_DI_LINKMAP: c_int = 2;
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
/// `R_X86_64_GLOB_DAT`, `R_X86_64_JUMP_SLOT`, and the same two of AArch64: a plain address.
const KINDS: [u32; 4] = [6, 7, 1025, 1026];

unsafe extern "C" {
    fn dlinfo(handle: *mut c_void, request: c_int, info: *mut c_void) -> c_int;
}

/// The beginning of `struct link_map` (link.h).
#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const c_char,
    dynamic: *const [i64; 2],
}

#[repr(C)]
struct Rela {
    offset: usize,
    info: u64,
    addend: i64,
}

/// `Elf64_Sym` (elf.h).
#[repr(C)]
struct Sym {
    name: u32,
    rest: [u8; 20],
}

/// Has calls of `function` from the file of `handle` go to `to`. Tells whether the file calls that function by such a table.
///
/// # Safety
///
/// `handle` is of dlopen, and `to` is a function of that kind.
pub(super) unsafe fn replace(handle: NonNull<c_void>, function: &CStr, to: usize) -> bool {
    let mut map: *const LinkMap = ptr::null();
    // SAFETY: dlinfo(3): RTLD_DI_LINKMAP writes one pointer.
    let failed = unsafe { dlinfo(handle.as_ptr(), RTLD_DI_LINKMAP, (&raw mut map).cast()) } != 0;
    // SAFETY: null, or the linker's record of a file that stays loaded.
    let Some(map) = (unsafe { map.as_ref() }).filter(|_| !failed) else { return false };
    // SAFETY: as above: glibc has made the addresses in the dynamic section absolute.
    let get = |tag| unsafe { entry(map.dynamic, tag) };
    let (Some(names), Some(symbols)) = (get(DT_STRTAB), get(DT_SYMTAB)) else { return false };
    let mut replaced = false;
    for (at, size) in [(DT_JMPREL, DT_PLTRELSZ), (DT_RELA, DT_RELASZ)] {
        let (Some(at), Some(size)) = (get(at), get(size)) else { continue };
        for i in 0..size / size_of::<Rela>() {
            // SAFETY: the table has this many entries.
            let rela = unsafe { &*(at as *const Rela).add(i) };
            if !KINDS.contains(&((rela.info & 0xffff_ffff) as u32)) {
                continue;
            }
            // SAFETY: an index into the file's own symbols.
            let symbol = unsafe { &*(symbols as *const Sym).add((rela.info >> 32) as usize) };
            // SAFETY: a place in the file's own strings, which end in a NUL.
            let name = unsafe { CStr::from_ptr((names + symbol.name as usize) as *const c_char) };
            if name == function {
                // SAFETY: the slot of that function in the file's table.
                replaced |= unsafe { write(map.base + rela.offset, to) };
            }
        }
    }
    replaced
}

/// Reads one entry of a dynamic section, which ends with tag 0.
unsafe fn entry(mut dynamic: *const [i64; 2], tag: i64) -> Option<usize> {
    loop {
        // SAFETY: the caller's: entries up to the one with tag 0.
        let [found, value] = unsafe { *dynamic };
        if found == tag {
            return usize::try_from(value).ok();
        }
        if found == 0 {
            return None;
        }
        // SAFETY: as above: this was not the last.
        dynamic = unsafe { dynamic.add(1) };
    }
}

/// Writes a slot, whose page the linker may have made read-only.
unsafe fn write(slot: usize, to: usize) -> bool {
    // SAFETY: sysconf(3) takes any name.
    let size = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let page = (slot & !(size - 1)) as *mut c_void;
    // SAFETY: a page of the data of a loaded file.
    if unsafe { libc::mprotect(page, size, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
        return false;
    }
    // SAFETY: an aligned word there that holds an address.
    unsafe { (slot as *mut usize).write(to) };
    true
}
