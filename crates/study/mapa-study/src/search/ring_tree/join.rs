//! Complete matches: both sides, the top and rank 0.

use super::build::Sections;
use super::hung::least;
use super::search::StretchSearch;
use super::sides::{Ends, Others, Side, SideSlack};
use super::stretch::Stretch;
use crate::limits::MOST_FREE;
use crate::search::number::Number;
use crate::search::set_positions::POSITIONS;
use crate::search::subsets::{bits, count};

/// If no more sets than this are still to be found, sides outside all of them are dropped.
const FEW_SETS: usize = 128;

impl<T: Number> StretchSearch<'_, T> {
    /// Goes through every vertex as the top.
    pub(super) fn run(mut self) -> Self {
        for top in 0..self.m {
            let Some(limit) = self.limit else { break };
            let edge = T::rows_plus(self.weights.rows[top], self.prices.with_each(1 << top));
            let near = self.near_halves(top);
            self.join(&Ends { top, edge, near: &near, limit: limit.plus(self.prices.most()) });
        }
        self
    }

    /// Every match with this top.
    fn join(&mut self, ends: &Ends<'_, T>) {
        let (left, right) = self.sides;
        match (left == right, left.is_composed()) {
            (true, true) => self.join_large_twins(ends),
            (true, false) => self.join_small_twins(ends),
            (false, _) if right.is_composed() => {
                let (first, second) = self.list_composed(ends);
                self.join_lists(ends, first, second);
            }
            (false, _) => {
                let (first, second) = self.list_sides(ends);
                self.join_lists(ends, first, second);
            }
        }
    }

    /// Both lists for sides of different sizes: the small sides first, because they bound the large ones.
    fn list_sides(&self, ends: &Ends<'_, T>) -> (Vec<Side<T>>, Vec<Side<T>>) {
        let (sides, (left, right)) = (self.sides(), self.sides);
        let rest = T::rows_plus(ends.edge, sides.least(left, ends));
        let second = sides.list(right, ends, SideSlack { rest, twice: false, others: None });
        let room = room_beside(ends, &second, T::NONE, least(&second));
        (sides.list(left, ends, room), second)
    }

    /// Both lists if both sides are composed: the better right sides bound the left ones, and these bound all right ones.
    fn list_composed(&self, ends: &Ends<'_, T>) -> (Vec<Side<T>>, Vec<Side<T>>) {
        let nothing = || (Vec::new(), Vec::new());
        let (sides, (left, right)) = (self.sides(), self.sides);
        let least_right = sides.least(right, ends);
        let rest = T::rows_plus(ends.edge, sides.least(left, ends));
        let floor = T::best_lane(T::rows_plus(rest, least_right)).units();
        let Some((floor, limit)) = floor.zip(ends.limit.units()).filter(|(floor, limit)| floor <= limit)
        else {
            return nothing();
        };
        let within = floor + (limit - floor) / 2;
        let thin_ends = Ends { limit: T::of(within), ..*ends };
        let thin = sides.list(right, &thin_ends, SideSlack { rest, twice: false, others: None });
        // A side that is not among these makes a match lack more than `within`.
        let beyond = |rest: T| rest.units().map_or(T::NONE, |rest| T::of((within + 1).saturating_sub(rest)));
        let more = T::row(T::lanes(rest).map(beyond));
        let least_right = T::rows_least(least_right, T::rows_most(least(&thin), more));
        let first = sides.list(left, ends, room_beside(ends, &thin, T::best_lane(more), least_right));
        let second = sides.list(right, ends, room_beside(ends, &first, T::NONE, least(&first)));
        (first, second)
    }

    fn join_lists(&mut self, ends: &Ends<'_, T>, mut first: Vec<Side<T>>, mut second: Vec<Side<T>>) {
        if self.only_new_sets() && self.found.left() <= FEW_SETS {
            let new = self.found.not_yet(self.n, ends.top);
            let is_in_one = |a: &Side<T>| new.iter().any(|set| a.set & !set == 0);
            first.retain(is_in_one);
            second.retain(is_in_one);
        }
        let (left, right) = self.sides;
        let parts = count(self.m - 1 - left.size, right.size);
        // A step of the list is half of one through the parts of what is left.
        if second.len() < 2 * parts {
            first.iter().for_each(|a| self.join_one(ends, a, &second));
            return;
        }
        let mut at = vec![0_u16; count(self.m, right.size)];
        for (i, b) in second.iter().enumerate() {
            at[POSITIONS.of(b.set)] = u16::try_from(i + 1).unwrap_or(u16::MAX);
        }
        let all = (1_u32 << self.m) - 1;
        for a in &first {
            POSITIONS.parts(all & !(a.set | 1 << ends.top), right.size, false, (), |(), b, _| {
                if let Some(b) = usize::from(at[b]).checked_sub(1) {
                    self.join_one(ends, a, &second[b..=b]);
                }
            });
        }
    }

    /// Joins one side with others, which are best first.
    fn join_one(&mut self, ends: &Ends<'_, T>, a: &Side<T>, others: &[Side<T>]) {
        let row = T::rows_plus(a.row, ends.edge);
        let best = T::best_lane(row);
        for b in others {
            if self.limit.is_none_or(|limit| limit.plus(self.prices.most()).ahead(best.plus(b.best))) {
                return;
            }
            if a.set & b.set == 0 {
                let sections = Sections { left: a.set, right: b.set, top: ends.top };
                self.offer(T::rows_plus(row, b.row), sections);
            }
        }
    }

    fn join_small_twins(&mut self, ends: &Ends<'_, T>) {
        let (sides, (side, _)) = (self.sides(), self.sides);
        let rest = T::rows_plus(ends.edge, sides.least(side, ends));
        let all = sides.list(side, ends, SideSlack { rest, twice: false, others: None });
        for (i, a) in all.iter().enumerate() {
            self.join_one(ends, a, &all[i + 1..]);
        }
    }

    /// Two sides of seven on 16 vertices: one lacks at most half, and the other one takes what is left.
    fn join_large_twins(&mut self, ends: &Ends<'_, T>) {
        let all = (1_u32 << self.m) - 1;
        let (sides, (side, _)) = (self.sides(), self.sides);
        let half = sides.compose(side, ends, SideSlack { rest: ends.edge, twice: true, others: None });
        let rows: Vec<Vec<T::Row>> = match &self.hung[Stretch::MOST_HUNG] {
            Some(hung) if !half.is_empty() => {
                let sets = count(self.m, Stretch::MOST_HUNG);
                (0..self.m).map(|root| hung.by_position(root, sets)).collect()
            }
            _ => return,
        };
        for a in &half {
            let Some(limit) = self.limit else { return };
            let limit = limit.plus(self.prices.most());
            let whole = T::rows_plus(T::rows_plus(a.row, a.row), ends.edge);
            for zero in bits(u32::from(T::reaching(whole, limit))) {
                let rest = all & !(a.set | 1 << ends.top | 1 << zero);
                let here = T::lane(&a.row, zero).plus(T::lane(&ends.edge, zero));
                let lacks = here.plus(self.side_on(&rows, rest, (ends.top, zero), here));
                let mut lanes = [T::NONE; MOST_FREE];
                lanes[zero] = lacks;
                self.offer(T::row(lanes), Sections { left: a.set, right: rest, top: ends.top });
            }
        }
    }

    /// Returns the lack of the best side of seven on exactly this set; [`Number::NONE`] if it cannot be within the limit together
    /// with `here`.
    fn side_on(&self, rows: &[Vec<T::Row>], set: u32, (top, zero): (usize, usize), here: T) -> T {
        let Some((limit, hung)) = self.limit.zip(self.hung[Stretch::MOST_HUNG].as_ref()) else {
            return T::NONE;
        };
        let limit = limit.plus(self.prices.most());
        let better = |best: T, lacks: T| if lacks.ahead(best) { lacks } else { best };
        bits(set).fold(T::NONE, |best, root| {
            let edge = self.weights.of[root][top].plus(self.prices.of(root));
            let least = T::lane(&hung.least[root], top).plus(T::lane(&hung.least[root], zero));
            if limit.ahead(here.plus(edge).plus(least)) {
                return best;
            }
            let rows = &rows[root];
            let halves =
                POSITIONS.parts(set ^ 1 << root, Stretch::MOST_HUNG, false, T::NONE, |best, near, far| {
                    better(best, T::lane(&rows[near], top).plus(T::lane(&rows[far], zero)))
                });
            better(best, edge.plus(halves))
        })
    }
}

/// Returns the lack that a side may have together with one of these, which are best first. `more`: the least lack of every side that is not among them
/// lacks at least.
fn room_beside<'a, T: Number>(
    ends: &Ends<'_, T>,
    sides: &'a [Side<T>],
    more: T,
    least: T::Row,
) -> SideSlack<'a, T> {
    let others = Others { sides, more, edge: T::best_lane(ends.edge) };
    SideSlack { rest: T::rows_plus(ends.edge, least), twice: false, others: Some(others) }
}
