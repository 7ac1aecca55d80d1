//! Orders of ranks that are the same match: a pattern mapped onto itself. Searches try one order of each kind.
//!
//! Of the orders that are alike, the first in the order of vertices is kept. It has these properties: of two ranks with
//! the same neighbours, the lower one has the lower vertex (leaves of a tree the other way round); where the ranks can be
//! turned round, rank 0 has the lowest vertex; where they can be reversed as well, so has rank 1 of the two next to it;
//! where they can only be reversed, the last has a lower one than the first.

use crate::limits::MOST_FREE;

/// Weight of the edges between every two ranks, thousandths.
pub(super) type Weights = [[i64; MOST_FREE]; MOST_FREE];

/// Orders that need not be tried.
pub(super) struct Symmetry {
    /// Per rank, a mask of the ranks that must be on a higher vertex.
    pub(super) above: [u32; MOST_FREE],
    /// At least so many orders are alike.
    pub(super) alike: u64,
    /// The ranks can be turned round.
    pub(super) is_ring: bool,
    /// The ranks can only be reversed.
    pub(super) is_chain: bool,
}

impl Symmetry {
    pub(super) fn new(weights: &Weights, n: usize) -> Self {
        let keeps = |to: &dyn Fn(usize) -> usize| {
            (0..n).all(|a| (0..n).all(|b| weights[a][b] == weights[to(a)][to(b)]))
        };
        let mut above = [0_u32; MOST_FREE];
        let mut twins = 1_u64;
        for a in 0..n {
            let same = |b: &usize| (0..n).all(|c| c == a || c == *b || weights[a][c] == weights[*b][c]);
            above[a] = (a + 1..n).filter(same).fold(0, |mask, b| mask | 1 << b);
            twins = twins.saturating_mul(1 + u64::from(above[a].count_ones()));
        }
        keep_leaves_descending(&mut above, weights, n);
        let mut alike = twins;
        let is_ring = n > 2 && keeps(&|r| (r + 1) % n);
        if is_ring {
            above[0] |= (1 << n) - 2;
            alike = alike.max(n as u64);
            if keeps(&|r| (n - r) % n) {
                above[1] |= 1 << (n - 1);
                alike = alike.max(2 * n as u64);
            }
        }
        let is_chain = n > 1 && !is_ring && keeps(&|r| n - 1 - r);
        if is_chain {
            above[n - 1] |= 1;
            above[0] &= !(1 << (n - 1));
            alike = alike.max(2);
        }
        // A ring of three has rank 1 next to itself on both sides.
        above.iter_mut().enumerate().for_each(|(r, mask)| *mask &= !(1 << r));
        Self { above, alike, is_ring, is_chain }
    }
}

/// Turns round the relation of ranks that are leaves of one rank, not rank 0: NCCL's trees have always been placed so, and
/// a rank keeps its GPU from one version to the next.
fn keep_leaves_descending(above: &mut [u32; MOST_FREE], weights: &Weights, n: usize) {
    let only_neighbour = |rank: usize| {
        let mut near = (0..n).filter(|other| weights[rank][*other] != 0);
        near.next().filter(|_| near.next().is_none())
    };
    for a in 1..n {
        for b in a + 1..n {
            if above[a] >> b & 1 == 1 && only_neighbour(a).is_some_and(|rank| rank > 0) {
                above[a] &= !(1 << b);
                above[b] |= 1 << a;
            }
        }
    }
}
