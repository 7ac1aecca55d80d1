//! Granules that small allocations share.
//!
//! The driver's own choice is not known. Here an allocation goes to the granule with the least room that holds it, and a
//! granule that becomes empty is given back. Pieces within a granule are not tracked: a granule whose free pieces are too
//! small for the driver may count as one with room.

use std::collections::{BTreeMap, BTreeSet};

use super::{Charge, GRANULE, SHARED_BELOW};

/// Every small allocation is rounded up to a multiple of this, bytes.
const ALIGN: u64 = 512;
const ROOM: u32 = 2 << 20;

#[derive(Debug, Default)]
pub(super) struct Shared {
    next: u64,
    /// Free bytes of each granule.
    room: BTreeMap<u64, u32>,
    /// The same, by free bytes.
    by_room: BTreeSet<(u32, u64)>,
}

fn rounded(bytes: u64) -> u32 {
    // Callers have less than SHARED_BELOW, which is far below 2^32.
    u32::try_from(bytes.clamp(1, SHARED_BELOW).next_multiple_of(ALIGN)).unwrap_or(ROOM)
}

impl Shared {
    pub(super) fn bytes(&self) -> u64 {
        self.room.len() as u64 * GRANULE
    }

    /// Computes the bytes that a small allocation takes of the device: none, or one more granule.
    pub(super) fn more_for(&self, bytes: u64) -> u64 {
        if self.tightest(rounded(bytes)).is_some() { 0 } else { GRANULE }
    }

    fn tightest(&self, bytes: u32) -> Option<(u32, u64)> {
        self.by_room.range((bytes, 0)..).next().copied()
    }

    pub(super) fn take(&mut self, bytes: u64) -> Charge {
        let bytes = rounded(bytes);
        let (room, granule) = self.tightest(bytes).unwrap_or_else(|| {
            self.next += 1;
            (ROOM, self.next)
        });
        self.set(granule, room - bytes);
        Charge::Part { granule, bytes }
    }

    pub(super) fn give(&mut self, granule: u64, bytes: u32) {
        let Some(room) = self.room.get(&granule).copied() else { return };
        self.set(granule, room.saturating_add(bytes).min(ROOM));
    }

    fn set(&mut self, granule: u64, room: u32) {
        if let Some(before) = self.room.remove(&granule) {
            self.by_room.remove(&(before, granule));
        }
        if room < ROOM {
            self.room.insert(granule, room);
            self.by_room.insert((room, granule));
        }
    }
}
