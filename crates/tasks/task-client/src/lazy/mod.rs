//! Objects whose task is not known when they are allocated (CASE, section 3.1.2, "lazy runtime").
//!
//! *Problem.* A program allocates and fills device memory before it says how large its kernels are, or how much more it will
//! allocate. Its task cannot be placed yet.
//!
//! *Approach.* An allocation is answered by an address without memory, and what is done to it is queued. Just before a launch
//! all such objects are bound together: one task is asked for, memory is mapped where the addresses are, and the queue is
//! replayed in its order. Pointers that the program has stored anywhere stay right.
//!
//! *Terminology.* An *object* is what one allocation call gives. A *room* is a range of reserved addresses in whole granules of
//! device memory: a large object has its own, small ones share one, as they do with the driver's own allocator. A *step* is one
//! queued copy or fill.
//!
//! This module decides and keeps book. `ffi::lazy` reserves, maps and copies.

mod table;

pub use table::{Backing, Content, Freed, Place, Room, Step, Table};

/// Device memory is mapped in granules of this many bytes.
pub const GRANULE: u64 = 2 << 20;
/// Objects and rows of pitched objects begin at multiples of this many bytes.
pub const ALIGN: u64 = 512;
/// The heap of a device's kernels unless the program sets another, bytes.
pub const DEFAULT_HEAP: u64 = 8 << 20;
/// Bytes of host data that wait at most. Beyond, the objects are bound with what is known by then.
pub const MOST_QUEUED: u64 = 1 << 30;
/// Unbound memory up to this many bytes fits every device there is, so that nobody needs to be asked.
pub const CERTAIN: u64 = 1 << 30;

/// Rows of bytes: `height` rows of `width` bytes, each beginning `pitch` bytes after the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Offset of the first row.
    pub at: u64,
    /// From row to row, bytes.
    pub pitch: u64,
    /// Bytes of a row.
    pub width: u64,
    /// How many.
    pub height: u64,
}

impl Rows {
    /// The address of a row.
    #[must_use]
    pub fn row(&self, index: u64) -> u64 {
        self.at.wrapping_add(self.pitch.wrapping_mul(index))
    }

    /// The address behind the last byte; `None` beyond 64 bits.
    #[must_use]
    pub fn end(&self) -> Option<u64> {
        let Some(last) = self.height.checked_sub(1) else { return Some(self.at) };
        self.at.checked_add(self.pitch.checked_mul(last)?)?.checked_add(self.width)
    }

    /// All bytes of all rows; `None` beyond 64 bits.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        self.width.checked_mul(self.height)
    }
}

/// Computes the bytes of an allocation of `height` rows of `width` bytes, and the bytes from row to row. Rows of pitched memory
/// begin aligned. `None` beyond 64 bits.
#[must_use]
pub fn size(width: u64, height: u64, is_pitched: bool) -> Option<(u64, u64)> {
    let row = if is_pitched { width.checked_next_multiple_of(ALIGN)? } else { width };
    Some((row.checked_mul(height)?, row))
}
