//! Rings and chains: dynamic programming over subsets.
//!
//! # Algorithm
//! `best[set][last]` is the largest sum over the paths that visit exactly `set` and end at `last`; it comes from
//! `best[set - last]` and the links of `last`. A ring begins at the lowest vertex of its set and is closed there.
//! One table answers for every subset at once: the value of a set of `n` is in the set's own row.
//!
//! # Worst case
//! 16 free GPUs and n = 16: 2^16 rows of 16 bytes, or up to 64 where bandwidths have no common unit (1 to 4 MiB), and
//! 2^16 * 16 / 2 steps of 16 lanes for a chain, half of that for a ring.

use super::number::{Number, Weights, best_of};
use super::space::Space;
use super::subsets::bits;
use crate::limits::MOST_FREE;

/// Values by set of vertices.
pub(super) struct PathTable<T: Number> {
    rows: Vec<T::Row>,
    closed: bool,
}

/// True if a path over this set can be part of one over `n` vertices. A ring begins at the lowest vertex of its set, so
/// enough vertices must be above that.
fn needed(mask: u32, m: usize, n: usize, closed: bool) -> bool {
    mask.count_ones() as usize <= n && (!closed || m - mask.trailing_zeros() as usize >= n)
}

impl<T: Number> PathTable<T> {
    /// Fills the table for sets of up to `n` vertices over these weights.
    pub(super) fn new(weights: &Weights<T>, n: usize, closed: bool) -> Self {
        let rows = if closed { Self::fill::<true>(weights, n) } else { Self::fill::<false>(weights, n) };
        Self { rows, closed }
    }

    /// The rows of the table. `CLOSED` is a constant so that rings and chains have a loop each: with a test inside one
    /// loop, chains took up to a third longer.
    fn fill<const CLOSED: bool>(weights: &Weights<T>, n: usize) -> Vec<T::Row> {
        let m = weights.rows.len();
        let none = T::NONE.each();
        let mut rows = vec![none; 1 << m];
        for mask in 1_u32..1 << m {
            if !needed(mask, m, n, CLOSED) {
                continue;
            }
            let first = mask.trailing_zeros() as usize;
            rows[mask as usize] = if mask & (mask - 1) == 0 {
                let mut lanes = [T::NONE; MOST_FREE];
                lanes[first] = T::ZERO;
                T::row(lanes)
            } else {
                // A vertex that is not in the set gets the set's own row, which is still empty; a ring never ends at
                // the vertex where it begins.
                let before = |v: usize| {
                    let rest = if CLOSED && v == first { mask } else { mask & !(1 << v) };
                    rows[rest as usize]
                };
                let of = |v: usize| if v < m { T::rows_plus(before(v), weights.rows[v]) } else { none };
                T::best_of_each(&std::array::from_fn(of))
            };
        }
        rows
    }

    /// Returns the lack of the best ring or chain of exactly this set.
    pub(super) fn value(&self, weights: &Weights<T>, mask: u32) -> T {
        T::best_lane(self.ends(weights, mask))
    }

    fn ends(&self, weights: &Weights<T>, mask: u32) -> T::Row {
        let row = self.rows[mask as usize];
        let first = mask.trailing_zeros() as usize;
        let closes = self.closed && mask.count_ones() > 1;
        if closes { T::rows_plus(row, weights.rows[first]) } else { row }
    }

    /// A ring or chain of that sum, as vertices in order.
    pub(super) fn order(&self, weights: &Weights<T>, mask: u32) -> Vec<usize> {
        let mut order = Vec::with_capacity(MOST_FREE);
        let mut left = mask;
        let mut last = best_of::<T>(self.ends(weights, mask), mask);
        while let Some(v) = last {
            order.push(v);
            left ^= 1 << v;
            last = (left != 0)
                .then(|| T::rows_plus(self.rows[left as usize], weights.rows[v]))
                .and_then(|row| best_of::<T>(row, left));
        }
        order.reverse();
        // Both ways round are the same ring.
        if self.closed && order.len() > 2 && order[1] > order[order.len() - 1] {
            order[1..].reverse();
        }
        order
    }
}

/// For each set of up to `n` vertices, whether a ring or chain visits it on links of at least this level.
pub(super) fn feasible(space: &Space, level: usize, n: usize, closed: bool) -> Vec<bool> {
    let m = space.len();
    let adjacent = space.adjacent(level);
    // Bit v: some path of the set ends at v.
    let mut ends = vec![0_u16; 1 << m];
    let mut found = vec![false; 1 << m];
    for mask in 1_u32..1 << m {
        if !needed(mask, m, n, closed) {
            continue;
        }
        let (first, size) = (mask.trailing_zeros() as usize, mask.count_ones());
        let mut here = 0_u32;
        if size == 1 {
            here = mask;
        } else {
            for v in bits(if closed { mask & (mask - 1) } else { mask }) {
                let before = u32::from(ends[(mask ^ 1 << v) as usize]);
                here |= u32::from(before & adjacent[v] != 0) << v;
            }
        }
        ends[mask as usize] = (here & 0xffff) as u16;
        found[mask as usize] = if closed && size > 1 { here & adjacent[first] != 0 } else { here != 0 };
    }
    found
}
