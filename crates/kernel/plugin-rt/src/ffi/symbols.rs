//! Symbols and strings of the hosting process.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr::NonNull;

/// The address of a symbol of the hosting process; `None` if it has none of that name.
#[must_use]
pub fn symbol(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: POSIX dlsym: RTLD_DEFAULT and a NUL-terminated name.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}

/// The bytes of a global of the process, as the file that has it says; `None` if no file says.
#[must_use]
pub fn symbol_size(address: NonNull<c_void>) -> Option<u64> {
    /// Asks for the symbol's own entry [dlfcn.h].
    const RTLD_DL_SYMENT: c_int = 1;
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let mut entry: *mut c_void = std::ptr::null_mut();
    // SAFETY: dladdr1(3): places for the answers.
    let found = unsafe { libc::dladdr1(address.as_ptr(), info.as_mut_ptr(), &raw mut entry, RTLD_DL_SYMENT) };
    // SAFETY: zeroed above and all fields are valid when zero; dladdr1 has filled it.
    let info = unsafe { info.assume_init() };
    if found == 0 || entry.is_null() || info.dli_saddr != address.as_ptr() {
        return None;
    }
    // SAFETY: dladdr1(3): the entry of the symbol table, which lives as long as its file is loaded.
    Some(unsafe { entry.cast::<libc::Elf64_Sym>().read() }.st_size).filter(|size| *size > 0)
}

/// The file that this plugin was loaded from.
#[must_use]
pub fn own_file() -> Option<PathBuf> {
    /// Something of this plugin's own.
    static HERE: u8 = 0;
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr(3) with an address inside this plugin and a place for the answer.
    let found = unsafe { libc::dladdr((&raw const HERE).cast(), info.as_mut_ptr()) };
    if found == 0 {
        return None;
    }
    // SAFETY: zeroed above and all fields are valid when zero; dladdr has filled it.
    let info = unsafe { info.assume_init() };
    if info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr gives a NUL-terminated path that lives as long as this plugin is loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

/// A copy of a C string; `None` for null. What is not UTF-8 is replaced.
///
/// # Safety
///
/// A pointer that is not null points to a NUL-terminated string.
#[must_use]
pub unsafe fn text(pointer: *const c_char) -> Option<String> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: the caller's promise; copied before anything can change it.
    Some(unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_copied_and_null_is_none() {
        // SAFETY: a literal.
        assert_eq!(unsafe { text(c"n1".as_ptr()) }.as_deref(), Some("n1"));
        // SAFETY: null is allowed.
        assert_eq!(unsafe { text(std::ptr::null()) }, None);
    }

    #[test]
    fn a_globals_bytes_are_known() {
        // stdin: a pointer in libc.
        assert_eq!(symbol(c"stdin").and_then(symbol_size), Some(8));
        let local = 0_u8;
        assert_eq!(symbol_size(NonNull::from(&local).cast()), None);
    }

    #[test]
    fn the_own_file_is_this_program() {
        let own = own_file().and_then(|file| file.canonicalize().ok());
        assert_eq!(own, std::env::current_exe().ok().and_then(|file| file.canonicalize().ok()));
    }

    #[test]
    fn symbols_are_found_by_name() {
        assert!(symbol(c"getenv").is_some() && symbol(c"slurm_of_no_version").is_none());
    }
}
