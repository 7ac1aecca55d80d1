//! The users whom this machine knows.

use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::ptr;

/// Bytes for the texts of a user's entry: more than any of them has.
const BYTES: usize = 64 << 10;

/// Gives the number of a user; `None`: this machine knows none of that name, or cannot tell. It may ask a directory over the network,
/// as slurmctld does where it reads its own configuration: call it only there.
#[must_use]
pub fn uid_of(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    let mut texts: Vec<c_char> = vec![0; BYTES];
    let mut entry = MaybeUninit::<libc::passwd>::uninit();
    let mut found = ptr::null_mut();
    // SAFETY: getpwnam_r(3): a NUL-terminated name, and room for the entry and so many bytes, which live to the end of this function.
    let failed = unsafe {
        libc::getpwnam_r(name.as_ptr(), entry.as_mut_ptr(), texts.as_mut_ptr(), texts.len(), &raw mut found)
    };
    if failed != 0 || found.is_null() {
        return None;
    }
    // SAFETY: getpwnam_r(3): `found` is not null, so the entry is filled.
    Some(unsafe { entry.assume_init() }.pw_uid)
}

#[cfg(test)]
mod tests {
    use super::uid_of;

    #[test]
    fn a_user_has_the_number_of_his_name() {
        assert_eq!(uid_of("root"), Some(0));
        assert_eq!([uid_of("nobody-of-that-name"), uid_of(""), uid_of("ro\0ot")], [None; 3]);
    }
}
