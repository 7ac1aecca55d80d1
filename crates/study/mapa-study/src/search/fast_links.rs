//! A match without any slow edge, given how slow is too slow.
//!
//! # Algorithm
//! Each rank keeps the vertices that it may still have: those with fast enough links to the vertices of all its placed
//! neighbours, and to as many others as it has edges. The rank with the fewest such vertices is placed next. A branch
//! ends when a rank has none left, or when all remaining ranks together have too few.

use super::budget::Budget;
use super::edge_graph::EdgeGraph;
use super::space::Space;
use super::subsets::bits;
use crate::limits::MOST_FREE;

/// The vertices that each rank may have.
type Domains = [u32; MOST_FREE];

/// A pattern, and the links that are fast enough for each of its edges.
pub(super) struct FastLinks {
    n: usize,
    /// Per rank: other rank, and which links are fast enough for the edge.
    edges: Vec<Vec<(usize, usize)>>,
    /// Other ranks that each rank has edges to.
    degrees: Vec<u32>,
    /// Links that are fast enough, by how much an edge needs and vertex.
    near: Vec<Vec<u32>>,
}

impl FastLinks {
    /// For edges of at least this rate: MB/s over the edge's share of the heaviest one's weight.
    pub(super) fn new(pattern: &EdgeGraph, space: &Space, slowest: f64) -> Self {
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
        let others = |edges: &Vec<(usize, usize)>| edges.iter().fold(0_u32, |set, (to, _)| set | 1 << to);
        let degrees = edges.iter().map(|edges| others(edges).count_ones()).collect();
        Self { n: pattern.ranks(), edges, degrees, near }
    }

    /// The vertex of each rank of a match on vertices of this set. `None` if there is none, or `budget` is used up.
    pub(super) fn search(&self, set: u32, budget: &mut Budget) -> Option<Vec<usize>> {
        let mut domains = [0; MOST_FREE];
        for ((domain, edges), degree) in domains.iter_mut().zip(&self.edges).zip(&self.degrees) {
            let ends = |need: usize, v: usize| (self.near[need][v] & set).count_ones();
            let enough =
                |v: &usize| ends(0, *v) >= *degree && edges.iter().all(|(_, need)| ends(*need, *v) > 0);
            *domain = bits(set).filter(enough).fold(0, |domain, v| domain | 1 << v);
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
