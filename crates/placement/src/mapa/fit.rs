//! Patterns on links that are fast enough: a match without any slower edge.
//!
//! # Algorithm
//! Each rank keeps the vertices it may still have: those that are linked fast enough to the vertices of all its placed
//! neighbours, and to as many others as it has edges. The rank with the fewest is placed next. A branch ends when a
//! rank has none left, or all together too few.

use super::general::{Budget, GraphPattern};
use super::space::{MOST_FREE, Space, bits};

/// The vertices that each rank may have.
type Domains = [u32; MOST_FREE];

/// Whether there is a match.
pub(super) enum Fits {
    /// One: the vertex of each rank.
    Yes(Vec<usize>),
    /// None.
    No,
    /// None was found, and the steps were used up.
    Unsure,
}

/// A pattern and the links that are fast enough for its edges.
pub(super) struct Fit {
    n: usize,
    /// Per rank: other rank, and which links are fast enough for the edge.
    edges: Vec<Vec<(usize, usize)>>,
    /// Links that are fast enough, by how much an edge needs and vertex.
    near: Vec<Vec<u32>>,
}

impl Fit {
    /// For edges that are as fast as this, thousandths of GB/s over their share of the heaviest one's weight.
    pub(super) fn new(pattern: &GraphPattern, space: &Space, slowest: f64) -> Self {
        let shares = pattern.shares();
        let m = space.len();
        let fast =
            |share: f64, a: usize, b: usize| a != b && f64::from(space.weight[a][b]) / share >= slowest;
        let row = |share: f64, a: usize| (0..m).filter(|b| fast(share, a, *b)).fold(0, |row, b| row | 1 << b);
        let near = shares.iter().map(|share| (0..m).map(|a| row(*share, a)).collect()).collect();
        let mut edges = vec![Vec::new(); pattern.ranks()];
        for (a, b, share) in pattern.edge_shares() {
            let need = shares.iter().position(|s| *s >= share).unwrap_or(0);
            edges[a].push((b, need));
            edges[b].push((a, need));
        }
        Self { n: pattern.ranks(), edges, near }
    }

    /// The vertex of each rank of a match on vertices of this set, looked for with half of the steps that are left.
    pub(super) fn on(&self, set: u32, budget: &mut Budget) -> Fits {
        let mut half = Budget(budget.0 / 2);
        let found = self.search(set, &mut half);
        let is_sure = half.0 > 0;
        budget.0 -= budget.0 / 2 - half.0;
        found.map_or(if is_sure { Fits::No } else { Fits::Unsure }, Fits::Yes)
    }

    /// `None`: there is none, or the steps are used up.
    fn search(&self, set: u32, budget: &mut Budget) -> Option<Vec<usize>> {
        let mut domains = [0; MOST_FREE];
        for (domain, edges) in domains.iter_mut().zip(&self.edges) {
            let enough = |v: usize| {
                let ends = |need: usize| (self.near[need][v] & set).count_ones() as usize;
                let mut others: Vec<usize> = edges.iter().map(|(to, _)| *to).collect();
                others.sort_unstable();
                others.dedup();
                ends(0) >= others.len() && edges.iter().all(|(_, need)| ends(*need) > 0)
            };
            *domain = bits(set).filter(|v| enough(*v)).fold(0, |domain, v| domain | 1 << v);
        }
        let mut order = vec![0; self.n];
        self.place((1 << self.n) - 1, domains, &mut order, budget).then_some(order)
    }

    /// Places the ranks that are left.
    fn place(&self, left: u32, domains: Domains, order: &mut [usize], budget: &mut Budget) -> bool {
        let Some(rank) = bits(left).min_by_key(|rank| domains[*rank].count_ones()) else { return true };
        let rest = left ^ 1 << rank;
        for v in bits(domains[rank]) {
            if budget.0 == 0 {
                return false;
            }
            budget.0 -= 1;
            let mut next = domains;
            for (to, need) in &self.edges[rank] {
                next[*to] &= self.near[*need][v];
            }
            let mut union = 0;
            let mut is_empty = false;
            for other in bits(rest) {
                next[other] &= !(1 << v);
                union |= next[other];
                is_empty |= next[other] == 0;
            }
            if !is_empty && union.count_ones() >= rest.count_ones() {
                order[rank] = v;
                if self.place(rest, next, order, budget) {
                    return true;
                }
            }
        }
        false
    }
}

/// How fast the slowest edge of a match can be, fastest first.
pub(super) fn ladder(pattern: &GraphPattern, space: &Space) -> Vec<f64> {
    let shares = pattern.shares();
    let rates =
        space.levels.iter().flat_map(|level| shares.iter().map(move |share| f64::from(*level) / share));
    let mut ladder: Vec<f64> = rates.collect();
    ladder.sort_unstable_by(|a, b| b.total_cmp(a));
    ladder.dedup();
    ladder
}
