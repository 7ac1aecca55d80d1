//! The process's memory by address: what lies where, and whose it is.

use std::collections::BTreeMap;

/// What a range of addresses is. `context` is the context that it was made in and goes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Device memory.
    Device {
        /// Its context.
        context: u64,
        /// Its size in whole granules, bytes; 0 if it shares one.
        granules: u64,
    },
    /// Managed memory.
    Managed {
        /// Its context.
        context: u64,
    },
    /// Host memory that the driver allocated.
    Host {
        /// Its context.
        context: u64,
    },
    /// Memory of the program's that it registered, or a variable of a module's.
    Registered {
        /// Its context.
        context: u64,
    },
    /// Part of a reservation to which a handle is mapped.
    Mapped {
        /// Ordinal of the device whose memory it is.
        device: usize,
    },
}

/// One range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First address.
    pub start: u64,
    /// Length as asked for, bytes.
    pub bytes: u64,
    /// Number of its allocation in this process: `CU_POINTER_ATTRIBUTE_BUFFER_ID`.
    pub id: u64,
    /// What it is.
    pub kind: Kind,
}

impl Range {
    /// Whether kernels and copies may use it as device memory.
    #[must_use]
    pub fn is_device(&self) -> bool {
        matches!(self.kind, Kind::Device { .. } | Kind::Managed { .. } | Kind::Mapped { .. })
    }

    /// The context that it goes with.
    #[must_use]
    pub fn context(&self) -> Option<u64> {
        match self.kind {
            Kind::Device { context, .. }
            | Kind::Managed { context }
            | Kind::Host { context }
            | Kind::Registered { context } => Some(context),
            Kind::Mapped { .. } => None,
        }
    }
}

/// All ranges; they do not overlap.
#[derive(Debug, Default)]
pub struct Ranges {
    by_start: BTreeMap<u64, Range>,
    last_id: u64,
}

impl Ranges {
    /// Adds a range and returns it.
    pub fn add(&mut self, start: u64, bytes: u64, kind: Kind) -> Range {
        self.last_id += 1;
        let range = Range { start, bytes, id: self.last_id, kind };
        self.by_start.insert(start, range);
        range
    }

    /// The range that starts here.
    #[must_use]
    pub fn at(&self, start: u64) -> Option<Range> {
        self.by_start.get(&start).copied()
    }

    /// Removes the range that starts here.
    pub fn remove(&mut self, start: u64) -> Option<Range> {
        self.by_start.remove(&start)
    }

    /// The range that holds an address.
    #[must_use]
    pub fn holding(&self, address: u64) -> Option<Range> {
        let (_, range) = self.by_start.range(..=address).next_back()?;
        (address - range.start < range.bytes.max(1)).then_some(*range)
    }

    /// Whether `bytes` from an address on are known memory, over several ranges where they are adjacent.
    #[must_use]
    pub fn covers(&self, mut address: u64, bytes: u64, wanted: impl Fn(&Range) -> bool) -> bool {
        let Some(end) = address.checked_add(bytes) else { return false };
        while address < end {
            match self.holding(address).filter(&wanted) {
                Some(range) => address = range.start + range.bytes,
                None => return false,
            }
        }
        true
    }

    /// Whether any range has bytes in common with this one.
    #[must_use]
    pub fn overlaps(&self, start: u64, bytes: u64) -> bool {
        let end = start.saturating_add(bytes);
        self.by_start.range(..end).next_back().is_some_and(|(_, r)| r.start + r.bytes > start)
    }

    /// Every range of a context.
    #[must_use]
    pub fn of_context(&self, context: u64) -> Vec<Range> {
        self.by_start.values().filter(|r| r.context() == Some(context)).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_find_their_range() {
        let mut all = Ranges::default();
        let device = Kind::Device { context: 1, granules: 0 };
        all.add(1000, 100, device);
        all.add(1100, 50, device);
        all.add(2000, 10, Kind::Host { context: 2 });
        assert_eq!(all.holding(1099).unwrap().start, 1000);
        assert_eq!(all.holding(1100).unwrap().start, 1100);
        assert_eq!((all.holding(999), all.holding(1150)), (None, None));
        assert!(all.covers(1050, 100, Range::is_device) && !all.covers(1050, 101, Range::is_device));
        assert!(!all.covers(2000, 1, Range::is_device) && all.covers(5, 0, Range::is_device));
        assert!(!all.covers(u64::MAX, 2, |_| true));
        assert!(all.overlaps(900, 101) && !all.overlaps(900, 100) && !all.overlaps(1150, 800));
        assert_eq!(all.of_context(1).len(), 2);
    }
}
