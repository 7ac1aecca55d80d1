//! The highest possible rate of the slowest edge of a match: the rates that occur, searched by halving.

use std::ops::Range;

use super::budget::Budget;
use super::edge_graph::EdgeGraph;
use super::fast_links::FastLinks;
use super::level_tables::LevelTables;
use super::space::Space;

/// The rates that the slowest edge of a match can have, fastest first; a rung is the index of one.
pub(super) struct SpeedLadder<'a> {
    pattern: &'a EdgeGraph,
    space: &'a Space,
    rates: Vec<f64>,
    /// The links for each rung, made when they are first needed: weights of many kinds make thousands of rungs.
    fits: Vec<Option<FastLinks>>,
    /// Answers where a search of few steps does not.
    tables: Option<LevelTables<'a>>,
    /// No search has used up its steps.
    is_sure: bool,
}

/// Most steps of a search before the tables are asked; asking them counts as many steps.
const TABLES: u32 = 500;

impl<'a> SpeedLadder<'a> {
    pub(super) fn new(pattern: &'a EdgeGraph, space: &'a Space) -> Self {
        let shares = pattern.shares();
        let rates = space.levels.iter().flat_map(|level| shares.iter().map(move |s| f64::from(*level) / s));
        let mut rates: Vec<f64> = rates.collect();
        rates.sort_unstable_by(|a, b| b.total_cmp(a));
        rates.dedup();
        let fits = rates.iter().map(|_| None).collect();
        Self { pattern, space, rates, fits, tables: None, is_sure: true }
    }

    /// With lookup tables: slower than most searches, but certain to answer.
    pub(super) fn with_tables(self, tables: Option<LevelTables<'a>>) -> Self {
        Self { tables, ..self }
    }

    /// The rate of a rung: MB/s over an edge's share of the heaviest one's weight.
    pub(super) fn rate(&self, rung: usize) -> Option<f64> {
        self.rates.get(rung).copied()
    }

    /// Empties `budget` if some search used up its steps, because what it led to is not proven.
    pub(super) fn admit_unsure(&self, budget: &mut Budget) {
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

    /// The fastest of these rungs on which vertices of this set have a match. `None` if none has one, or if `budget` is
    /// used up.
    ///
    /// Halves the rungs: what fits on one fits on all slower ones.
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

    fn fit(&mut self, rung: usize) -> Option<&FastLinks> {
        let (pattern, space, rate) = (self.pattern, self.space, *self.rates.get(rung)?);
        Some(self.fits.get_mut(rung)?.get_or_insert_with(|| FastLinks::new(pattern, space, rate)))
    }

    /// True if vertices of this set have a match on this rung.
    ///
    /// Takes one step and searches with half of those that remain, or with few where there are tables.
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
    use mapa::Edge;
    use topology::{HardwareGraph, Link};

    /// Sixteen GPUs of which no two pairs have the same rate, and a pattern of which no two edges have the same weight.
    #[test]
    fn of_thousands_of_rungs_few_are_looked_at() {
        let rate = |a: usize, b: usize| 10.0 + ((a * 16 + b) * 37 % 257) as f64 / 8.0;
        let graph = HardwareGraph::new(16, None, 8, &|a, b| Link::of_bandwidth(rate(a.min(b), a.max(b))));
        let space = Space::new(&graph, graph.all()).unwrap();
        let pairs = (0..9).flat_map(|a| (0..a).map(move |b| (a, b)));
        let edges = pairs.enumerate().map(|(i, (a, b))| Edge { a, b, weight: 1.0 + i as f64 / 16.0 });
        let pattern = EdgeGraph::new(&edges.collect::<Vec<_>>(), 9);
        let mut ladder = SpeedLadder::new(&pattern, &space);
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
