//! Symbols and strings of the hosting process.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;

/// The address of a symbol of the hosting process; `None` if it has none of that name.
#[must_use]
pub fn symbol(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: POSIX dlsym: RTLD_DEFAULT and a NUL-terminated name.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
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
    fn symbols_are_found_by_name() {
        assert!(symbol(c"getenv").is_some() && symbol(c"slurm_of_no_version").is_none());
    }
}
