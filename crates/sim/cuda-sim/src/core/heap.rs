//! How allocations share granules.
//!
//! The driver takes device memory in granules of 2 MiB. An allocation of 1 MiB or more has whole granules of its own; smaller ones
//! share a granule, each at a multiple of 512 bytes, and a granule that has become empty is given back.

use std::collections::BTreeMap;

/// The unit in which a device's memory is taken.
pub const GRANULE: u64 = 2 << 20;
/// From here on an allocation has granules of its own.
pub const SHARED_BELOW: u64 = 1 << 20;
/// Every allocation starts at a multiple of this.
const ALIGN: u64 = 512;

/// The size in whole granules; `None` beyond 2^64.
#[must_use]
pub fn whole_granules(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(GRANULE)
}

/// Granules that small allocations share, by address. It owns no memory: addresses are only numbers here.
#[derive(Debug, Default)]
pub struct Shared {
    /// Free pieces of each granule: start, length; ascending, never adjacent.
    granules: BTreeMap<u64, Vec<(u64, u64)>>,
}

impl Shared {
    /// Finds a place in a granule that is there.
    pub fn place(&mut self, bytes: u64) -> Option<u64> {
        let bytes = bytes.max(1).next_multiple_of(ALIGN);
        self.granules.values_mut().find_map(|free| {
            let index = free.iter().position(|(_, length)| *length >= bytes)?;
            let piece = free.get_mut(index)?;
            let address = piece.0;
            *piece = (piece.0 + bytes, piece.1 - bytes);
            if piece.1 == 0 {
                free.remove(index);
            }
            Some(address)
        })
    }

    /// Adds an empty granule.
    pub fn add(&mut self, address: u64) {
        self.granules.insert(address, vec![(address, GRANULE)]);
    }

    /// Takes an allocation back. Returns its granule if that is empty now and no longer here.
    pub fn remove(&mut self, address: u64, bytes: u64) -> Option<u64> {
        let bytes = bytes.max(1).next_multiple_of(ALIGN);
        let (granule, free) = self.granules.range_mut(..=address).next_back()?;
        let granule = *granule;
        let at = free.partition_point(|(start, _)| *start < address);
        free.insert(at, (address, bytes));
        free.dedup_by(|next, piece| {
            let joined = piece.0 + piece.1 == next.0;
            if joined {
                piece.1 += next.1;
            }
            joined
        });
        let empty = free.first() == Some(&(granule, GRANULE));
        if empty {
            self.granules.remove(&granule);
        }
        empty.then_some(granule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_round_up_to_whole_granules() {
        assert_eq!(whole_granules(1), Some(GRANULE));
        assert_eq!(whole_granules(GRANULE), Some(GRANULE));
        assert_eq!(whole_granules(GRANULE + 1), Some(2 * GRANULE));
        assert_eq!(whole_granules(u64::MAX), None);
    }

    proptest! {
        /// No two allocations overlap, each lies in a granule, and granules are given back exactly when empty.
        #[test]
        fn memory_never_overlaps_in_any_history(steps in prop::collection::vec((any::<bool>(), 0..SHARED_BELOW, any::<usize>()), 1..200)) {
            let mut heap = Shared::default();
            let mut live: Vec<(u64, u64)> = Vec::new();
            let mut granules: Vec<u64> = Vec::new();
            let mut next = 1_u64 << 40;
            for (add, bytes, pick) in steps {
                if add || live.is_empty() {
                    let address = heap.place(bytes).unwrap_or_else(|| {
                        granules.push(next);
                        heap.add(next);
                        next += 16 * GRANULE;
                        heap.place(bytes).unwrap()
                    });
                    let end = address + bytes.max(1);
                    prop_assert_eq!(address % ALIGN, 0);
                    prop_assert!(granules.iter().any(|g| *g <= address && end <= g + GRANULE));
                    prop_assert!(live.iter().all(|(a, b)| a + b.max(&1) <= address || end <= *a));
                    live.push((address, bytes));
                } else {
                    let (address, bytes) = live.swap_remove(pick % live.len());
                    let gone = heap.remove(address, bytes);
                    let granule = *granules.iter().find(|g| (**g..**g + GRANULE).contains(&address)).unwrap();
                    let used = live.iter().any(|(a, _)| (granule..granule + GRANULE).contains(a));
                    prop_assert_eq!(gone, (!used).then_some(granule));
                    granules.retain(|g| Some(*g) != gone);
                }
            }
        }
    }
}
