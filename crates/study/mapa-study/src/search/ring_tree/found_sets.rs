//! The sets that a search has found so far.

use super::stretch::vertices;
use crate::search::subsets::{bits, count, subsets};

/// The sets found, and for each set of one vertex less the vertices that would make a new one.
pub(super) struct FoundSets {
    pub(super) sets: Vec<u32>,
    open: Vec<u16>,
    all: u16,
    most: usize,
}

impl FoundSets {
    pub(super) fn new(m: usize, n: usize) -> Self {
        let all = vertices((1 << m) - 1);
        Self { sets: Vec::new(), open: vec![all; 1 << m], all, most: count(m, n) }
    }

    pub(super) fn clear(&mut self) {
        if !self.sets.is_empty() {
            self.sets.clear();
            self.open.fill(self.all);
        }
    }

    pub(super) fn add(&mut self, set: u32) {
        self.sets.push(set);
        for v in bits(set) {
            self.open[(set ^ 1 << v) as usize] &= !(1 << v);
        }
    }

    /// The vertices that would make a new set together with this one.
    pub(super) fn open(&self, set: u32) -> u16 {
        self.open[set as usize]
    }

    /// The sets of `n` vertices that contain the vertex `with` and are not found yet.
    pub(super) fn not_yet(&self, n: usize, with: usize) -> Vec<u32> {
        let m = self.all.count_ones() as usize;
        let is_open = |set: &u32| set >> with & 1 == 1 && self.open(set ^ 1 << with) >> with & 1 == 1;
        subsets(m, n).filter(is_open).collect()
    }

    /// Number of sets that are not found yet.
    pub(super) fn left(&self) -> usize {
        self.most - self.sets.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.left() == 0
    }
}
