//! Rings and chains: dynamic programming over subsets.
//!
//! # Algorithm
//! `best[set][last]` is the largest sum over the paths that visit exactly `set` and end at `last`; it comes from
//! `best[set - last]` and the links of `last`. A ring begins at the lowest vertex of its set and is closed there.
//! One table answers for every subset at once: the value of a set of `n` is read at its own row.
//!
//! # Worst case
//! 16 free GPUs and n = 16: 2^16 rows of 32 bytes, or 64 where bandwidths have no common unit (2 or 4 MiB), and
//! 2^16 * 16 / 2 steps of 16 lanes for a chain, half of that for a ring.

use super::space::{Lanes, MOST_FREE, Number, Space, bits};

/// Values by set of vertices.
pub(super) struct PathTable<T> {
    rows: Vec<Lanes<T>>,
    closed: bool,
}

fn max_lane<T: Number>(row: &Lanes<T>) -> T {
    let mut all = *row;
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            all[i] = all[i].most(all[i + half]);
        }
    }
    all[0]
}

fn plus<T: Number>(a: &Lanes<T>, b: &Lanes<T>) -> Lanes<T> {
    let mut out = [T::NONE; MOST_FREE];
    for i in 0..MOST_FREE {
        out[i] = a[i].plus(b[i]);
    }
    out
}

/// Whether a path of this set can be part of a set of `n`: a ring begins at the lowest vertex of its set, above which
/// there must be enough others.
fn needed(mask: u32, m: usize, n: usize, closed: bool) -> bool {
    mask.count_ones() as usize <= n && (!closed || m - mask.trailing_zeros() as usize >= n)
}

impl<T: Number> PathTable<T> {
    /// Fills the table for sets of up to `n` vertices over these weights.
    pub(super) fn new(weights: &[Lanes<T>], n: usize, closed: bool) -> Self {
        let m = weights.len();
        let mut rows = vec![[T::NONE; MOST_FREE]; 1 << m];
        for mask in 1_u32..1 << m {
            if !needed(mask, m, n, closed) {
                continue;
            }
            let first = mask.trailing_zeros() as usize;
            let mut row = [T::NONE; MOST_FREE];
            if mask & (mask - 1) == 0 {
                row[first] = T::ZERO;
            } else {
                let last = if closed { mask & (mask - 1) } else { mask };
                for v in bits(last) {
                    row[v] = max_lane(&plus(&rows[(mask ^ 1 << v) as usize], &weights[v])).most(T::NONE);
                }
            }
            rows[mask as usize] = row;
        }
        Self { rows, closed }
    }

    /// The largest sum over the rings or chains of exactly this set; below 0 where there is none.
    pub(super) fn value(&self, weights: &[Lanes<T>], mask: u32) -> T {
        let row = &self.rows[mask as usize];
        if self.closed && mask.count_ones() > 1 {
            max_lane(&plus(row, &weights[mask.trailing_zeros() as usize]))
        } else {
            max_lane(row)
        }
    }

    /// A ring or chain of that sum, as vertices in order.
    pub(super) fn order(&self, weights: &[Lanes<T>], mask: u32) -> Vec<usize> {
        let first = mask.trailing_zeros() as usize;
        let row = self.rows[mask as usize];
        let ends = if self.closed && mask.count_ones() > 1 { plus(&row, &weights[first]) } else { row };
        let mut order = Vec::with_capacity(MOST_FREE);
        let mut left = mask;
        let mut last = best_of(&ends, mask);
        while let Some(v) = last {
            order.push(v);
            left ^= 1 << v;
            last = (left != 0)
                .then(|| plus(&self.rows[left as usize], &weights[v]))
                .and_then(|r| best_of(&r, left));
        }
        order.reverse();
        // Both ways round are the same ring.
        if self.closed && order.len() > 2 && order[1] > order[order.len() - 1] {
            order[1..].reverse();
        }
        order
    }
}

/// The lowest vertex of the set with the largest value.
fn best_of<T: Number>(row: &Lanes<T>, mask: u32) -> Option<usize> {
    bits(mask).reduce(|best, v| if row[v] > row[best] { v } else { best })
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
