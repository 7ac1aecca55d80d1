//! The mapping of the table's file.

use std::fs::File;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

use super::{SLOT, SLOTS};

/// A file of [`SLOTS`] slots, mapped `MAP_SHARED`: what is written outlives the process at once.
pub(super) struct Map {
    base: NonNull<u8>,
}

/// Bytes of a slot after its state.
pub(super) const BODY: usize = SLOT - 4;

impl Map {
    /// Maps a file of at least `SLOTS * SLOT` bytes.
    pub(super) fn new(file: &File) -> std::io::Result<Map> {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: mmap(2): a new mapping at an address of the kernel's choice touches no memory of ours. The file is
        // root's alone and is never truncated.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), SLOTS * SLOT, prot, flags, file, 0)? };
        NonNull::new(base.cast())
            .map(|base| Map { base })
            .ok_or_else(|| std::io::ErrorKind::OutOfMemory.into())
    }

    fn at(&self, slot: usize) -> *mut u8 {
        assert!(slot < SLOTS, "slot {slot} of {SLOTS}");
        // SAFETY: `new` mapped SLOTS * SLOT bytes, and `slot` is one of them.
        unsafe { self.base.as_ptr().add(slot * SLOT) }
    }

    fn state(&self, slot: usize) -> &AtomicU32 {
        let at = self.at(slot).cast::<u32>();
        // SAFETY: `at` is within the mapping, aligned because SLOT is a multiple of 4 and mmap's addresses are aligned to
        // pages, and only accessed through this function.
        unsafe { AtomicU32::from_ptr(at) }
    }

    /// Tells whether the slot is in use.
    pub(super) fn is_used(&self, slot: usize) -> bool {
        self.state(slot).load(Ordering::Acquire) == 1
    }

    pub(super) fn read(&self, slot: usize) -> [u8; BODY] {
        let mut body = [0; BODY];
        // SAFETY: `at` returns SLOT bytes of the mapping, of which the body is all but the first 4; one thread of one
        // process, which holds the lock of the folder, uses the file.
        unsafe { std::ptr::copy_nonoverlapping(self.at(slot).wrapping_add(4), body.as_mut_ptr(), BODY) };
        body
    }

    /// Writes a slot that is not in use. A process killed in between leaves it unused.
    pub(super) fn write(&self, slot: usize, body: &[u8; BODY]) {
        // SAFETY: as in `read`.
        unsafe { std::ptr::copy_nonoverlapping(body.as_ptr(), self.at(slot).wrapping_add(4), BODY) };
        self.state(slot).store(1, Ordering::Release);
    }

    /// Number of slots that were ever taken: the first slot counts them and holds no record.
    pub(super) fn taken(&self) -> usize {
        (self.state(0).load(Ordering::Acquire) as usize).clamp(1, SLOTS)
    }

    /// Counts the slots before `next` as taken.
    pub(super) fn set_taken(&self, next: u32) {
        self.state(0).store(next, Ordering::Release);
    }

    /// Gives a slot up.
    pub(super) fn clear(&self, slot: usize) {
        self.state(slot).store(0, Ordering::Release);
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: `new` mapped exactly this, and no reference into it outlives `self`.
        // It fails for no mapping of ours.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), SLOTS * SLOT) };
    }
}
