//! The highest possible rate of the slowest edge of a match: the rates that occur, searched by halving.

use std::ops::Range;

use super::budget::Budget;
use super::climb::{Climb, Effort};
use super::fast_links::FastLinks;
use super::ranks::Ranks;
use super::space::Space;
use super::tally::Tally;

/// The rates that the slowest edge of a match can have, fastest first; a rung is the index of one.
pub(super) struct SpeedLadder<'a> {
    ranks: &'a Ranks,
    space: &'a Space,
    rates: Vec<f64>,
    /// The links for each rung, made when they are first needed: weights of many kinds make thousands of rungs.
    fits: Vec<Option<FastLinks>>,
    /// Most steps of one search, and what is tried after them.
    patience: (u32, Effort),
    is_few: bool,
    /// No search has used up its steps without finding a match.
    pub(super) is_sure: bool,
}

/// Limits where there are many orders: most steps of one search, and the effort after them; for one of many sets, and for
/// one that decides.
const LITTLE: (u32, Effort) = (1_000, Effort { starts: 4, kicks: 16 });
const MUCH: (u32, Effort) = (5_000, Effort { starts: 16, kicks: 30 });

impl<'a> SpeedLadder<'a> {
    pub(super) fn new(ranks: &'a Ranks, space: &'a Space) -> Self {
        let rates =
            space.levels.iter().flat_map(|level| ranks.shares.iter().map(move |s| f64::from(*level) / s));
        let mut rates: Vec<f64> = rates.collect();
        rates.sort_unstable_by(|a, b| b.total_cmp(a));
        rates.dedup();
        let fits = rates.iter().map(|_| None).collect();
        Self { ranks, space, rates, fits, patience: MUCH, is_few: ranks.is_few(space.len()), is_sure: true }
    }

    /// Tries less on each set from here on.
    pub(super) fn hurry(&mut self) {
        self.patience = LITTLE;
    }

    /// The rate of a rung: MB/s over an edge's share of the heaviest one's weight.
    pub(super) fn rate(&self, rung: usize) -> Option<f64> {
        self.rates.get(rung).copied()
    }

    /// Number of rungs.
    pub(super) fn len(&self) -> usize {
        self.rates.len()
    }

    /// The end of the rungs from this one down that are fast enough.
    pub(super) fn end(&self, from: usize, is_enough: impl Fn(f64) -> bool) -> usize {
        from + self.rates[from..].partition_point(|rate| is_enough(*rate))
    }

    /// The fastest of these rungs on which vertices of this set have a match, and the vertex of each rank. `None` if none
    /// has one, or none was found.
    ///
    /// Halves the rungs: what fits on one fits on all slower ones.
    pub(super) fn fastest(
        &mut self,
        set: u32,
        rungs: Range<usize>,
        budget: &mut Budget,
    ) -> Option<(usize, Vec<usize>)> {
        let (mut low, mut high) = (rungs.start, rungs.end.checked_sub(1)?);
        let mut order = self.order(high, set, budget)?;
        let mut at = low;
        while low < high {
            if let Some(faster) = self.order(at, set, budget) {
                (high, order) = (at, faster);
            } else {
                low = at + 1;
            }
            at = usize::midpoint(low, high);
        }
        Some((high, order))
    }

    /// The vertex of each rank of a match on this rung, of vertices of this set.
    pub(super) fn order(&mut self, rung: usize, set: u32, budget: &mut Budget) -> Option<Vec<usize>> {
        let rate = self.rate(rung)?;
        let (most, effort) = self.patience;
        let steps = if self.is_few { u32::MAX } else { most }.min(budget.0.saturating_sub(1));
        let mut left = Budget(steps);
        let found = if steps > 0 { self.fit(rung)?.search(set, &mut left) } else { None };
        budget.take(1 + steps - left.0);
        if found.is_some() || left.0 > 0 {
            return found;
        }
        let tally = Tally::of_slow_links(self.space, rate);
        let found = Climb::new(self.ranks, &tally).best(set, effort, 0.0, budget, &mut |_, _| {});
        let found = found.filter(|(slow, _)| *slow >= 0.0).map(|(_, order)| order);
        self.is_sure &= found.is_some();
        found
    }

    fn fit(&mut self, rung: usize) -> Option<&FastLinks> {
        let (ranks, space, rate) = (self.ranks, self.space, *self.rates.get(rung)?);
        Some(self.fits.get_mut(rung)?.get_or_insert_with(|| FastLinks::new(ranks, space, rate)))
    }
}
