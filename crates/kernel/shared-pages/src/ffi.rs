//! A page of 64-bit numbers that several processes see at once: a file in memory, mapped.

use std::fs::File;
use std::io;
use std::ptr;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The numbers of a mapped file, as long as this lives.
#[derive(Debug)]
pub struct SharedPage<const N: usize> {
    numbers: &'static [AtomicU64; N],
}

impl<const N: usize> SharedPage<N> {
    /// Maps the first `N` numbers of a file that has at least as many bytes, for all processes that map it. `writable` as the
    /// file was opened.
    ///
    /// # Errors
    ///
    /// The file is too short, or the system maps no more.
    pub fn map(file: &File, writable: bool) -> io::Result<Self> {
        if file.metadata()?.len() < Self::BYTES as u64 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it is too short"));
        }
        let may = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: mmap(2) with no address: a new mapping, which nothing else in this process uses.
        let page = unsafe { mmap(ptr::null_mut(), Self::BYTES, may, MapFlags::SHARED, file, 0) }?;
        // SAFETY: mapped until `drop`, aligned to a page, and only ever used as atomic numbers here and in other processes. A
        // file that its owner cuts would end the process with SIGBUS: nobody but its owner and root can.
        let numbers = unsafe { &*page.cast::<[AtomicU64; N]>() };
        Ok(Self { numbers })
    }

    const BYTES: usize = N * size_of::<AtomicU64>();

    /// The numbers. Those of a page that is not writable can only be loaded.
    #[must_use]
    pub fn numbers(&self) -> &[AtomicU64; N] {
        self.numbers
    }
}

impl<const N: usize> Drop for SharedPage<N> {
    fn drop(&mut self) {
        let page = ptr::from_ref(self.numbers).cast_mut().cast();
        // SAFETY: munmap(2): the mapping made above, and no reference outlives `self`.
        let _ = unsafe { munmap(page, Self::BYTES) };
    }
}
