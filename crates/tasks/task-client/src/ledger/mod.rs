//! Allocations of a process on its device, against its grant. Numbers only: no driver, no broker.
//!
//! The unit is a byte. The driver takes device memory in granules of 2 MiB: an allocation of 1 MiB or more has granules of its
//! own, smaller ones share some (measured behaviour of CUDA 12; `shared.rs` has the model). What the driver needs for itself,
//! such as a context, is not counted here: the broker sets `context_mib` aside for it.

mod array;
mod shared;
mod virtual_memory;

use std::collections::BTreeMap;

pub use array::ArrayShape;
use shared::Shared;
pub use virtual_memory::VirtualMemory;

/// The unit in which the driver takes memory of a device, bytes.
pub const GRANULE: u64 = 2 << 20;
/// From this size on an allocation has granules of its own, bytes.
pub const SHARED_BELOW: u64 = 1 << 20;

/// The driver's name of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// An address of linear memory.
    Address(u64),
    /// A `CUarray` or `CUmipmappedArray`.
    Array(u64),
}

/// Memory that was taken from the limit. It must come back by [`Ledger::give`] or be placed under a name.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "memory that is taken and neither placed nor given back is lost"]
pub enum Charge {
    /// Granules of its own, bytes.
    Whole(u64),
    /// A part of a shared granule.
    Part {
        /// Number of the granule.
        granule: u64,
        /// Bytes.
        bytes: u32,
    },
}

/// Bytes that an allocation lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short(pub u64);

#[derive(Debug)]
struct LedgerEntry {
    charge: Charge,
    /// The `CUcontext` whose end frees it; 0 for none.
    context: u64,
}

/// The account of one process on one device.
#[derive(Debug, Default)]
pub struct Ledger {
    limit: u64,
    whole: u64,
    shared: Shared,
    placed: BTreeMap<Name, LedgerEntry>,
    virtual_memory: VirtualMemory,
}

impl Ledger {
    /// Nothing allocated, and this many bytes to allocate.
    #[must_use]
    pub fn new(limit: u64) -> Ledger {
        Ledger { limit, ..Ledger::default() }
    }

    /// Limit of all allocations, bytes.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Sum of the allocations, bytes. More than the limit if the driver took more than expected.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.whole.saturating_add(self.shared.bytes())
    }

    /// Bytes left.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.limit.saturating_sub(self.used())
    }

    /// Allows more.
    pub fn raise(&mut self, bytes: u64) {
        self.limit = self.limit.saturating_add(bytes);
    }

    /// Allows less.
    pub fn lower(&mut self, bytes: u64) {
        self.limit = self.limit.saturating_sub(bytes);
    }

    /// Computes the further bytes of the device that an allocation takes: none if a shared granule has room for it.
    #[must_use]
    pub fn needs(&self, bytes: u64) -> u64 {
        if bytes >= SHARED_BELOW { whole_granules(bytes) } else { self.shared.more_for(bytes) }
    }

    /// Computes the bytes that an allocation lacks; `None` if it fits.
    #[must_use]
    pub fn missing(&self, bytes: u64) -> Option<Short> {
        let more = self.needs(bytes);
        let sum = self.used().saturating_add(more);
        // An allocation into a granule that is there costs nothing, even where too much is used already.
        (more > 0 && sum > self.limit).then(|| Short(sum - self.limit))
    }

    /// Takes memory for an allocation of `bytes`.
    ///
    /// # Errors
    ///
    /// It would be more than the limit; nothing changed.
    pub fn take(&mut self, bytes: u64) -> Result<Charge, Short> {
        self.missing(bytes).map_or_else(|| Ok(self.force(bytes)), Err)
    }

    /// Takes memory whatever the limit: the driver has given it already.
    pub fn force(&mut self, bytes: u64) -> Charge {
        if bytes < SHARED_BELOW {
            return self.shared.take(bytes);
        }
        let bytes = whole_granules(bytes);
        self.whole = self.whole.saturating_add(bytes);
        Charge::Whole(bytes)
    }

    /// Takes memory back.
    pub fn give(&mut self, charge: Charge) {
        match charge {
            Charge::Whole(bytes) => self.whole = self.whole.saturating_sub(bytes),
            Charge::Part { granule, bytes } => self.shared.give(granule, bytes),
        }
    }

    /// Writes down what the driver answered. A name that is there already was freed behind our back: its memory comes back.
    pub fn place(&mut self, name: Name, context: u64, charge: Charge) {
        if let Some(former) = self.placed.insert(name, LedgerEntry { charge, context }) {
            self.give(former.charge);
        }
    }

    /// Takes an allocation out before the driver frees it, so that another thread may be given the same address meanwhile.
    /// Its memory still counts: give the charge back, or place it again if the driver refuses.
    pub fn lift(&mut self, name: Name) -> Option<(Charge, u64)> {
        self.placed.remove(&name).map(|placed| (placed.charge, placed.context))
    }

    /// A context ended, and with it what was allocated there.
    pub fn end_context(&mut self, context: u64) {
        let ended: Vec<Name> = self
            .placed
            .iter()
            .filter(|(_, placed)| placed.context == context)
            .map(|(name, _)| *name)
            .collect();
        for name in ended {
            if let Some((charge, _)) = self.lift(name) {
                self.give(charge);
            }
        }
    }

    /// Physical memory that is mapped by hand.
    pub fn virtual_memory(&mut self) -> &mut VirtualMemory {
        &mut self.virtual_memory
    }

    /// Takes back the physical memory that nobody holds or maps any more.
    pub fn collect(&mut self) {
        for charge in self.virtual_memory.collect() {
            self.give(charge);
        }
    }
}

/// `bytes` in whole granules; the most there is where the sum is beyond 64 bits.
#[must_use]
pub fn whole_granules(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX - u64::MAX % GRANULE)
}

#[cfg(test)]
mod tests;
