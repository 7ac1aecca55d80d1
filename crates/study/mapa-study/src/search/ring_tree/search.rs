//! The state of one search: what it looks for, what bounds it, and what it has found.

use super::build::{Sections, SectionsMatch};
use super::found_sets::FoundSets;
use super::hung::Hung;
use super::near::NearHalves;
use super::priced;
use super::prices::Prices;
use super::sides::Sides;
use super::stretch::{Stretch, vertices};
use crate::search::number::{Number, Weights};
use crate::search::subsets::bits;

/// Matches that a search looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Every set that has a best match.
    Sets,
    /// Every set that has a match at the limit, unless one lacks less.
    SetsAt,
    /// A best match.
    One,
    /// Any match within the limit.
    Any,
}

/// A search over all vertices of one space.
pub(super) struct StretchSearch<'a, T: Number> {
    pub(super) weights: &'a Weights<T>,
    pub(super) m: usize,
    pub(super) n: usize,
    /// All fields below include prices, except `limit` and what is found.
    pub(super) prices: Prices<T>,
    pub(super) wanted: Wanted,
    /// Left and right of the top; the right one is not larger.
    pub(super) sides: (Stretch, Stretch),
    /// Stretches of none to three ranks; only those that are needed.
    pub(super) hung: [Option<Hung<T>>; 4],
    /// Matches that lack more are of no interest; `None` once nothing can be better than what was found.
    pub(super) limit: Option<T>,
    /// Sets that have a match at the limit.
    pub(super) found: FoundSets,
    /// A match as good as any found.
    pub(super) example: Option<SectionsMatch<T>>,
}

impl<'a, T: Number> StretchSearch<'a, T> {
    pub(super) fn new(weights: &'a Weights<T>, n: usize, limit: Option<T>, wanted: Wanted) -> Self {
        let m = weights.rows.len();
        let sides = Stretch { size: n - 1 }.halves();
        let (prices, hung) = priced::needed(weights, n, limit, sides);
        Self { weights, m, n, prices, wanted, sides, hung, limit, found: FoundSets::new(m, n), example: None }
    }

    /// Returns the lacks of near halves of sides with their root and the edge to this top; empty unless sides are composed.
    pub(super) fn near_halves(&self, top: usize) -> NearHalves<T> {
        let composed = self.hung[Stretch::MOST_HUNG].as_ref().filter(|_| self.sides.0.is_composed());
        let near = composed.map_or(&[][..], |near| &near.below);
        NearHalves::new(near, top, |root| self.weights.of[root][top].plus(self.prices.of(root)))
    }

    pub(super) fn sides(&self) -> Sides<'_, T> {
        Sides { hung: &self.hung, m: self.m }
    }

    fn wants_sets(&self) -> bool {
        matches!(self.wanted, Wanted::Sets | Wanted::SetsAt)
    }

    /// True if nothing can be better than what is found.
    pub(super) fn only_new_sets(&self) -> bool {
        self.wants_sets() && self.limit.and_then(Number::units) == Some(0)
    }

    /// Takes a match of these sections; lanes of `row` are the vertices for rank 0.
    pub(super) fn offer(&mut self, row: T::Row, sections: Sections) {
        let Some(limit) = self.limit else { return };
        let set = sections.set();
        if self.only_new_sets() && self.found.open(set) & !vertices(set) == 0 {
            return;
        }
        if T::reaching(row, limit.plus(self.prices.most())) & !vertices(set) == 0 {
            return;
        }
        let row = T::rows_minus(row, self.prices.with_each(set));
        if T::reaching(row, limit) & !vertices(set) == 0 {
            return;
        }
        let row = T::rows_without(row, set);
        let best = T::best_lane(row);
        if best.ahead(limit) {
            self.found.clear();
        }
        // One match is wanted: the limit is already below what the last one lacks.
        if best.ahead(limit) || self.example.is_none() || self.wanted == Wanted::One {
            let zero = T::reaching(row, best).trailing_zeros() as usize;
            self.example = Some(SectionsMatch { lacks: best, sections, zero });
            self.limit = match self.wanted {
                Wanted::Sets => Some(best),
                Wanted::SetsAt => Some(best).filter(|best| !best.ahead(limit)),
                Wanted::One => better(best),
                Wanted::Any => None,
            };
        }
        if self.wants_sets() {
            let new = u32::from(T::reaching(row, best) & self.found.open(set));
            bits(new).for_each(|zero| self.found.add(set | 1 << zero));
            if self.found.is_full() && best.units() == Some(0) {
                self.limit = None;
            }
        }
    }
}

/// Better than this by one unit.
pub(super) fn better<T: Number>(lacks: T) -> Option<T> {
    lacks.units().and_then(|units| units.checked_sub(1)).map(T::of)
}
