//! The program's own memory: addresses without memory, and what its pointers point to.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

#[cfg(doc)]
use crate::lazy::GRANULE;
use crate::lazy::{Room, Rows};

/// Rooms are in this part of the address space. The kernel places nothing there by itself: it goes down from the stack, and
/// the heap goes up from the program. So nobody takes a room's addresses while they pass from this library to the driver.
const FIRST: u64 = 0x2000_0000_0000;
const LAST: u64 = 0x5000_0000_0000;
/// Number of places that are tried.
const TRIES: usize = 1000;

static NEXT: AtomicU64 = AtomicU64::new(FIRST);

/// Reserves addresses that nobody can use, at a multiple of [`GRANULE`]; `bytes` is one too.
pub(super) fn reserve(bytes: u64) -> Option<u64> {
    if bytes > LAST - FIRST {
        return None;
    }
    for _ in 0..TRIES {
        let start = NEXT.fetch_add(bytes, Ordering::Relaxed);
        if start < FIRST || start > LAST - bytes {
            NEXT.store(FIRST, Ordering::Relaxed);
        } else if hold(Room { start, bytes }) {
            return Some(start);
        }
    }
    None
}

/// Reserves a room's addresses, if nobody has them.
pub(super) fn hold(room: Room) -> bool {
    let Ok(bytes) = usize::try_from(room.bytes) else { return false };
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: mmap(2): FIXED_NOREPLACE replaces no mapping of anybody's.
    let held = unsafe { rustix::mm::mmap_anonymous(pointer(room.start), bytes, ProtFlags::empty(), flags) };
    match held {
        Ok(at) if at == pointer(room.start) => true,
        // A kernel before 4.17 takes the address for a wish.
        Ok(at) => {
            give_up(Room { start: at.expose_provenance() as u64, bytes: room.bytes });
            false
        }
        Err(_) => false,
    }
}

/// Gives reserved addresses back.
pub(super) fn give_up(room: Room) {
    if room.bytes == 0 {
        return;
    }
    let (at, bytes) = (pointer(room.start), usize::try_from(room.bytes).unwrap_or(0));
    // SAFETY: munmap(2): only what `reserve` mapped comes here, and once.
    let _ = unsafe { rustix::mm::munmap(at, bytes) };
}

fn pointer(address: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0))
}

/// A copy of rows in host memory, one behind the other.
pub(super) fn read(from: Rows) -> Option<Vec<u8>> {
    let width = usize::try_from(from.width).ok()?;
    let mut data = Vec::new();
    data.try_reserve_exact(usize::try_from(from.bytes()?).ok()?).ok()?;
    for row in 0..from.height {
        // SAFETY: tessera_task.h: the source of a copy from the host is `height` rows of `width` bytes, as the CUDA call that
        // stands there says, and nobody writes it meanwhile.
        data.extend_from_slice(unsafe {
            std::slice::from_raw_parts(pointer(from.row(row)).cast::<u8>(), width)
        });
    }
    Some(data)
}

/// Writes what a pointer argument receives.
pub(super) fn put<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: tessera_task.h: a pointer that is not null points to room for one value of its type.
        unsafe { to.write_unaligned(value) };
    }
}
