//! Placements of ranks whose edges have exactly the given numbers of links of each class.

use crate::limits::MOST_FREE;
use crate::search::budget::Budget;
use crate::search::edge_graph::{BackEdge, EdgeGraph};
use crate::search::subsets::bits;

/// Numbers of links by class.
pub(super) type Counts = [usize; 3];

/// A placement in progress.
pub(super) struct Placing<'a> {
    pub(super) pattern: &'a EdgeGraph,
    /// By class and vertex: the vertices linked so.
    pub(super) near: &'a [[u32; MOST_FREE]; 3],
    /// Classes, scarcest first: those are used up first.
    pub(super) scarce: [usize; 3],
    /// The vertex of each place so far.
    pub(super) at: Vec<usize>,
}

impl Placing<'_> {
    /// True if the links within a set have enough ends of each class: necessary, not sufficient.
    pub(super) fn could(&self, set: u32, counts: Counts) -> bool {
        (0..3).all(|class| {
            let mut ends: Vec<u32> =
                bits(set).map(|v| (self.near[class][v] & set).count_ones()).filter(|d| *d > 0).collect();
            ends.sort_unstable_by(|a, b| b.cmp(a));
            self.pattern.most_edges(&ends) >= counts[class]
        })
    }

    /// Places the remaining ranks on this set so that their edges have exactly these counts.
    pub(super) fn place(&mut self, left: u32, counts: Counts, budget: &mut Budget) -> bool {
        let place = self.at.len();
        let Some(back) = self.pattern.back(place) else { return counts == [0; 3] };
        // Vertices by how many of the scarcest classes they use up, most first.
        let mut next = [(0_usize, 0_usize, [0; 3]); MOST_FREE];
        let mut n_next = 0;
        for v in bits(left) {
            let Some(rest) = self.with(v, back, counts) else { continue };
            let used = |class: usize| counts[class] - rest[class];
            let worth = used(self.scarce[0]) * 64 + used(self.scarce[1]);
            let mut at = n_next;
            while at > 0 && next[at - 1].0 < worth {
                next[at] = next[at - 1];
                at -= 1;
            }
            next[at] = (worth, v, rest);
            n_next += 1;
        }
        for (_, v, rest) in next.into_iter().take(n_next) {
            if budget.0 == 0 {
                return false;
            }
            budget.0 -= 1;
            self.at.push(v);
            if self.place(left ^ 1 << v, rest, budget) {
                return true;
            }
            self.at.pop();
        }
        false
    }

    /// Returns the rest of the counts with the next rank on `v`.
    fn with(&self, v: usize, back: &[BackEdge], mut counts: Counts) -> Option<Counts> {
        for (place, ..) in back {
            let to = 1 << self.at[*place];
            let class = (0..3).find(|class| self.near[*class][v] & to != 0)?;
            counts[class] = counts[class].checked_sub(1)?;
        }
        Some(counts)
    }
}
