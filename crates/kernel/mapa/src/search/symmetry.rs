//! Orders of ranks that are the same match: a pattern mapped onto itself. Searches try one order of each kind.
//!
//! Of the orders that are alike, the first in the order of vertices is kept. It has these properties: of two ranks with
//! the same neighbours, the lower one has the lower vertex (leaves of a tree the other way round); where the ranks can be
//! turned round, rank 0 has the lowest vertex; where they can be reversed as well, so has rank 1 of the two next to it;
//! where they can only be reversed, and neither the first nor the last has the same neighbours as a rank between them, the last
//! has a lower one than the first.

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
    /// The ranks can only be reversed, and the last has a lower vertex than the first.
    pub(super) is_chain: bool,
}

impl Symmetry {
    pub(super) fn new(weights: &Weights, n: usize) -> Self {
        let keeps = |to: &dyn Fn(usize) -> usize| {
            (0..n).all(|a| (0..n).all(|b| weights[a][b] == weights[to(a)][to(b)]))
        };
        let same = |a: usize, b: usize| (0..n).all(|c| c == a || c == b || weights[a][c] == weights[b][c]);
        let mut above = [0_u32; MOST_FREE];
        let mut twins = 1_u64;
        for (a, above) in above.iter_mut().enumerate().take(n) {
            *above = (a + 1..n).filter(|b| same(a, *b)).fold(0, |mask, b| mask | 1 << b);
            twins = twins.saturating_mul(1 + u64::from(above.count_ones()));
        }
        let mut alike = twins;
        let is_ring = n > 2 && keeps(&|r| (r + 1) % n);
        if !is_ring {
            keep_leaves_descending(&mut above, weights, n);
        }
        if is_ring {
            above[0] |= (1 << n) - 2;
            alike = alike.max(n as u64);
            if keeps(&|r| (n - r) % n) {
                above[1] |= 1 << (n - 1);
                alike = alike.max(2 * n as u64);
            }
        }
        // Ends with twins between them are in order already, the lowest of one and the highest of the other.
        let ends_differ = || (1..n - 1).all(|r| !same(0, r) && !same(r, n - 1));
        let is_chain = n > 1 && !is_ring && keeps(&|r| n - 1 - r) && ends_differ();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// All orders of `n` numbers.
    fn orders(n: usize) -> Vec<Vec<usize>> {
        let Some(last) = n.checked_sub(1) else { return vec![Vec::new()] };
        let with = |order: &Vec<usize>, at: usize| [&order[..at], &[last], &order[at..]].concat();
        orders(last).iter().flat_map(|order| (0..n).map(|at| with(order, at)).collect::<Vec<_>>()).collect()
    }

    fn weights(edges: impl Iterator<Item = (usize, usize, i64)>) -> Weights {
        let mut weights = [[0; MOST_FREE]; MOST_FREE];
        edges.for_each(|(a, b, weight)| (weights[a][b], weights[b][a]) = (weight, weight));
        weights
    }

    /// Checks that each order of the ranks has one that is alike and is kept.
    fn check(weights: &Weights, n: usize, orders: &[Vec<usize>]) {
        let symmetry = Symmetry::new(weights, n);
        let maps_onto_itself =
            |to: &&Vec<usize>| (0..n).all(|a| (0..a).all(|b| weights[a][b] == weights[to[a]][to[b]]));
        let maps: Vec<&Vec<usize>> = orders.iter().filter(maps_onto_itself).collect();
        let is_kept = |at: &dyn Fn(usize) -> usize| {
            (0..n).all(|low| (0..n).all(|high| symmetry.above[low] >> high & 1 == 0 || at(low) < at(high)))
        };
        for order in orders {
            let kept = maps.iter().any(|to| is_kept(&|rank| order[to[rank]]));
            assert!(kept, "{order:?} {:?}", weights[..n].iter().map(|row| &row[..n]).collect::<Vec<_>>());
        }
        assert!(maps.len() as u64 >= symmetry.alike);
    }

    #[test]
    fn of_the_orders_that_are_alike_one_is_kept() {
        for n in 1..=5 {
            let pairs: Vec<(usize, usize)> = (0..n).flat_map(|a| (0..a).map(move |b| (a, b))).collect();
            let orders = orders(n);
            for graph in 0..1_u32 << pairs.len() {
                let edges = pairs.iter().enumerate().map(|(i, (a, b))| (*a, *b, i64::from(graph >> i & 1)));
                check(&weights(edges), n, &orders);
            }
        }
    }

    #[test]
    fn patterns_that_can_be_reversed_lose_no_order() {
        let n = 6;
        let orders = orders(n);
        let mirror = |(a, b): (usize, usize)| (n - 1 - b, n - 1 - a);
        let pairs = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
        let pairs: Vec<(usize, usize)> = pairs.filter(|pair| *pair <= mirror(*pair)).collect();
        for graph in 0..1_u32 << pairs.len() {
            let of = |(i, pair): (usize, &(usize, usize))| {
                [*pair, mirror(*pair)].map(|(a, b)| (a, b, i64::from(graph >> i & 1)))
            };
            check(&weights(pairs.iter().enumerate().flat_map(of)), n, &orders);
        }
    }

    #[test]
    fn patterns_that_can_be_turned_round_lose_no_order() {
        for n in 3..=7 {
            let orders = orders(n);
            for distances in 0..1_u32 << (n / 2) {
                let is_edge = |a: usize, b: usize| distances >> ((a - b).min(n + b - a) - 1) & 1;
                let pairs = (0..n).flat_map(|a| (0..a).map(move |b| (a, b)));
                check(&weights(pairs.map(|(a, b)| (a, b, i64::from(is_edge(a, b))))), n, &orders);
            }
        }
    }
}
