//! A look at memory that may not be there.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Copies the memory at an address into `into`. False: it cannot be read, or the kernel does not let the process look.
///
/// The kernel copies, and says so where there is nothing: nothing here follows the address.
#[must_use]
pub fn peek(address: usize, into: &mut [u8]) -> bool {
    let asked = ask(address, into);
    finished(asked, address, into)
}

/// Has the kernel copy; returns the number of bytes.
fn ask(address: usize, into: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: getpid(2) has no preconditions.
    let own = unsafe { libc::getpid() };
    // SAFETY: process_vm_readv(2): `local` is memory of this function's; a bad `remote` is an error, not a crash.
    let copied = unsafe { libc::process_vm_readv(own, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(copied).map_err(|_| io::Error::last_os_error())
}

/// Tells whether all was copied. If the call itself is not there (a seccomp profile, an emulator), copies in the other way.
fn finished(asked: io::Result<usize>, address: usize, into: &mut [u8]) -> bool {
    match asked {
        Ok(copied) => copied == into.len(),
        Err(error) => {
            matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) && read_own(address, into)
        }
    }
}

/// Copies as [`peek`] does, by the process's own file of its memory.
fn read_own(address: usize, into: &mut [u8]) -> bool {
    let own = File::open("/proc/self/mem");
    own.is_ok_and(|file| file.read_exact_at(into, address as u64).is_ok())
}

/// Copies the text at an address, without its NUL, and no more of it than 64 KiB; `None`: memory ends before.
#[must_use]
pub fn peek_text(address: usize) -> Option<Vec<u8>> {
    /// Pieces of this size do not cross the border of a page.
    const PIECE: usize = 256;
    const MOST: usize = 64 * 1024;
    let mut text = Vec::new();
    let mut piece = [0; PIECE];
    while text.len() < MOST {
        let at = address.wrapping_add(text.len());
        let part = &mut piece[..PIECE - at % PIECE];
        if !peek(at, part) {
            return None;
        }
        let end = part.iter().position(|byte| *byte == 0);
        text.extend_from_slice(&part[..end.unwrap_or(part.len())]);
        if end.is_some() {
            break;
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_copied_to_its_end() {
        let long = format!("{}\0", "x".repeat(1000));
        assert_eq!(peek_text(long.as_ptr().addr()).map(|text| text.len()), Some(1000));
        assert_eq!(peek_text(c"".as_ptr().addr()), Some(Vec::new()));
        let endless = vec![b'x'; 80 * 1024];
        assert_eq!(peek_text(endless.as_ptr().addr()).map(|text| text.len() >= 64 * 1024), Some(true));
        assert_eq!(peek_text(8), None);
    }

    #[test]
    fn a_call_that_is_forbidden_has_a_stand_in() {
        let (there, mut copy) = ([1_u8, 2, 3, 4], [0; 4]);
        let mut after = |error| {
            copy = [0; 4];
            finished(Err(io::Error::from_raw_os_error(error)), there.as_ptr().addr(), &mut copy)
                && copy == there
        };
        assert!(after(libc::ENOSYS) && after(libc::EPERM));
        assert!(!after(libc::EFAULT));
        assert!(!finished(Ok(3), there.as_ptr().addr(), &mut copy));
    }

    #[test]
    fn what_is_there_is_copied_and_the_rest_is_not() {
        let there = [1_u8, 2, 3, 4];
        for way in [peek, read_own] {
            let mut copy = [0; 4];
            assert!(way(there.as_ptr().addr(), &mut copy));
            assert_eq!(copy, there);
            for nowhere in [0, 8, usize::MAX - 3, 0x4242_4242_4242_4242] {
                assert!(!way(nowhere, &mut copy), "{nowhere:x}");
            }
        }
    }
}
