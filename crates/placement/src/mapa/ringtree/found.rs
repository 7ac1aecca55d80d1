//! Sets that a search has found.

use super::super::space::{bits, count};

/// Sets that are found, and for each set of one less the vertices that would make a new one.
pub(super) struct Found {
    pub(super) sets: Vec<u32>,
    open: Vec<u16>,
    most: usize,
}

impl Found {
    pub(super) fn new(m: usize, n: usize) -> Self {
        Self { sets: Vec::new(), open: vec![u16::MAX; 1 << m], most: count(m, n) }
    }

    pub(super) fn clear(&mut self) {
        if !self.sets.is_empty() {
            self.sets.clear();
            self.open.fill(u16::MAX);
        }
    }

    pub(super) fn add(&mut self, set: u32) {
        self.sets.push(set);
        for v in bits(set) {
            self.open[(set ^ 1 << v) as usize] &= !(1 << v);
        }
    }

    /// The vertices that make a new set of this one.
    pub(super) fn open(&self, set: u32) -> u16 {
        self.open[set as usize]
    }

    pub(super) fn is_full(&self) -> bool {
        self.sets.len() == self.most
    }
}
