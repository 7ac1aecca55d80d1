//! Reserved addresses, memory and the mappings between them.

use std::collections::BTreeMap;

use super::code::{Answer, Code};
use crate::host::{Memory, Region};

/// Reservations by first address, and memory by handle.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    pub(super) reservations: BTreeMap<u64, Region>,
    pub(super) handles: BTreeMap<u64, Handle>,
    /// Handle of each mapping, by first address.
    pub(super) mappings: BTreeMap<u64, u64>,
}

#[derive(Debug)]
pub(super) struct Handle {
    pub(super) device: usize,
    pub(super) bytes: u64,
    pub(super) memory: Memory,
    /// Mappings, and the program's own references.
    pub(super) users: u32,
    pub(super) released: bool,
}

impl Mappings {
    /// The reservation that holds all of a range.
    pub(super) fn reservation(&self, address: u64, bytes: u64) -> Answer<&Region> {
        let end = address.checked_add(bytes).ok_or(Code::InvalidValue)?;
        let found = self.reservations.range(..=address).next_back().map(|(_, region)| region);
        found.filter(|r| end <= r.start() + r.bytes()).ok_or(Code::InvalidValue)
    }
}
