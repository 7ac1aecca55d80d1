//! Patterns on links that are fast enough: a match without any slower edge.
//!
//! # Algorithm
//! Each rank keeps the vertices it may still have: those that are linked fast enough to the vertices of all its placed
//! neighbours, and to as many others as it has edges. The rank with the fewest is placed next. A branch ends when a
//! rank has none left, or all together too few.
//!
//! Which links are the fastest that a match needs is found by halving (`Ladder`).

use std::ops::Range;

use super::general::{Budget, GraphPattern};
use super::space::{MOST_FREE, Space, bits};
use super::tables::Tables;

/// The vertices that each rank may have.
type Domains = [u32; MOST_FREE];

/// A pattern and the links that are fast enough for its edges.
struct Fit {
    n: usize,
    /// Per rank: other rank, and which links are fast enough for the edge.
    edges: Vec<Vec<(usize, usize)>>,
    /// Other ranks that each rank has edges to.
    degrees: Vec<u32>,
    /// Links that are fast enough, by how much an edge needs and vertex.
    near: Vec<Vec<u32>>,
}

impl Fit {
    /// For edges that are as fast as this, thousandths of GB/s over their share of the heaviest one's weight.
    fn new(pattern: &GraphPattern, space: &Space, slowest: f64) -> Self {
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

    /// `None`: there is none, or the steps are used up.
    fn search(&self, set: u32, budget: &mut Budget) -> Option<Vec<usize>> {
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

/// How fast the slowest edge of a match can be, fastest first, and what fits so far.
pub(super) struct Ladder<'a> {
    pattern: &'a GraphPattern,
    space: &'a Space,
    rates: Vec<f64>,
    /// By rung, as far as it was asked for: weights of many kinds make thousands.
    fits: Vec<Option<Fit>>,
    /// Tells what a search of few steps does not.
    tables: Option<Tables<'a>>,
    /// No search has ended for want of steps.
    is_sure: bool,
}

/// Most steps before tables are asked, and as how many those count.
const TABLES: u32 = 500;

impl<'a> Ladder<'a> {
    pub(super) fn new(pattern: &'a GraphPattern, space: &'a Space) -> Self {
        let shares = pattern.shares();
        let rates = space.levels.iter().flat_map(|level| shares.iter().map(move |s| f64::from(*level) / s));
        let mut rates: Vec<f64> = rates.collect();
        rates.sort_unstable_by(|a, b| b.total_cmp(a));
        rates.dedup();
        let fits = rates.iter().map(|_| None).collect();
        Self { pattern, space, rates, fits, tables: None, is_sure: true }
    }

    /// With tables, which are slower than most searches and end where those do not.
    pub(super) fn with_tables(self, tables: Option<Tables<'a>>) -> Self {
        Self { tables, ..self }
    }

    /// Thousandths of GB/s over an edge's share of the heaviest one's weight.
    pub(super) fn rate(&self, rung: usize) -> Option<f64> {
        self.rates.get(rung).copied()
    }

    /// Leaves no steps if a search has ended for want of them: what it led to is not proven.
    pub(super) fn own_up(&self, budget: &mut Budget) {
        if !self.is_sure {
            budget.0 = 0;
        }
    }

    /// Number of rungs.
    pub(super) fn len(&self) -> usize {
        self.rates.len()
    }

    /// The end of the rungs from this one down that are fast enough.
    pub(super) fn end(&self, from: usize, is_enough: impl Fn(f64) -> bool) -> usize {
        from + self.rates[from..].partition_point(|rate| is_enough(*rate))
    }

    /// The fastest of these rungs on which there is a match on vertices of this set. `None`: there is on none of them, or
    /// the steps are used up.
    ///
    /// What fits on a rung fits on all below.
    pub(super) fn fastest(&mut self, set: u32, rungs: Range<usize>, budget: &mut Budget) -> Option<usize> {
        let (mut low, mut high) = (rungs.start, rungs.end.checked_sub(1)?);
        if !self.is_on(high, set, budget) {
            return None;
        }
        let mut at = low;
        while low < high {
            if self.is_on(at, set, budget) {
                high = at;
            } else {
                low = at + 1;
            }
            at = usize::midpoint(low, high);
        }
        Some(high)
    }

    /// The vertex of each rank of a match on this rung.
    pub(super) fn order(&mut self, rung: usize, set: u32, budget: &mut Budget) -> Option<Vec<usize>> {
        self.fit(rung)?.search(set, budget)
    }

    fn fit(&mut self, rung: usize) -> Option<&Fit> {
        let (pattern, space, rate) = (self.pattern, self.space, *self.rates.get(rung)?);
        Some(self.fits.get_mut(rung)?.get_or_insert_with(|| Fit::new(pattern, space, rate)))
    }

    /// Takes a step, and looks with half of those that are left, where there are no tables.
    pub(super) fn is_on(&mut self, rung: usize, set: u32, budget: &mut Budget) -> bool {
        let Some(rate) = self.rate(rung) else { return false };
        if let Some(known) = self.tables.as_ref().and_then(|tables| tables.known(set, rate)) {
            return known;
        }
        let most = if self.tables.is_some() { TABLES } else { u32::MAX };
        let steps = most.min(budget.0.saturating_sub(1) / 2);
        let mut left = Budget(steps);
        let found = steps > 0 && self.fit(rung).is_some_and(|fit| fit.search(set, &mut left).is_some());
        budget.0 -= (1 + steps - left.0).min(budget.0);
        if found || left.0 > 0 {
            return found;
        }
        match &mut self.tables {
            Some(tables) if budget.0 > TABLES => {
                budget.0 -= TABLES;
                tables.ask(set, rate)
            }
            _ => {
                self.is_sure = false;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::{Edge, HardwareGraph, Link};

    /// Sixteen GPUs of which no two pairs have the same rate, and a pattern of which no two edges have the same weight.
    #[test]
    fn of_thousands_of_rungs_few_are_looked_at() {
        let rate = |a: usize, b: usize| 10.0 + ((a * 16 + b) * 37 % 257) as f64 / 8.0;
        let graph = HardwareGraph::new(16, None, 8, &|a, b| Link::of_bandwidth(rate(a.min(b), a.max(b))));
        let space = Space::new(&graph, graph.all()).unwrap();
        let pairs = (0..9).flat_map(|a| (0..a).map(move |b| (a, b)));
        let edges = pairs.enumerate().map(|(i, (a, b))| Edge { a, b, weight: 1.0 + i as f64 / 16.0 });
        let pattern = GraphPattern::new(&edges.collect::<Vec<_>>(), 9);
        let mut ladder = Ladder::new(&pattern, &space);
        assert!(ladder.rates.len() > 3_000, "{}", ladder.rates.len());
        for set in [0xffff, 0x3ff, 0xf0f3] {
            let mut budget = Budget(10_000_000);
            let rung = ladder.fastest(set, 0..ladder.len(), &mut budget).unwrap();
            let order = ladder.order(rung, set, &mut budget).unwrap();
            assert!(ladder.is_sure && order.iter().all(|v| set >> v & 1 == 1), "{set:x}");
            let slowest = pattern
                .edge_shares()
                .map(|(a, b, share)| f64::from(space.weight[order[a]][order[b]]) / share);
            assert!(slowest.fold(f64::INFINITY, f64::min) >= ladder.rate(rung).unwrap(), "{set:x}");
            assert!(!ladder.is_on(rung - 1, set, &mut budget) && ladder.is_sure, "{set:x}");
        }
        assert!(ladder.fits.iter().flatten().count() < 50);
    }
}
