//! Lists of sides: small ones as they are, and those of four to seven ranks from their root and two halves.

use super::hung::{Hung, Part, best_first};
use super::sides::{Ends, Side, SideSlack, Sides};
use super::stretch::{Stretch, vertices};
use crate::search::number::Number;
use crate::search::set_positions::POSITIONS;
use crate::search::subsets::count;

/// Sides as they are found, one per set.
struct SideTable<T: Number> {
    sides: Vec<Side<T>>,
    /// Position of each set's entry, from 1, by the set's position.
    at: Vec<u16>,
}

impl<T: Number> SideTable<T> {
    fn add(&mut self, set: u32, row: T::Row) {
        let at = &mut self.at[POSITIONS.of(set)];
        if *at == 0 {
            self.sides.push(Part { best: T::NONE, set, row: T::NONE.each() });
            // At most 11 440.
            *at = u16::try_from(self.sides.len()).unwrap_or(u16::MAX);
        }
        let side = &mut self.sides[usize::from(*at) - 1];
        side.row = T::rows_most(side.row, row);
    }
}

/// A far half, and what a match with it lacks at least, the near half and root not counted.
struct Far<T: Number> {
    whole: T,
    part: Part<T>,
}

/// The search below one root.
struct Root<'a, T: Number> {
    ends: &'a Ends<'a, T>,
    room: SideSlack<'a, T>,
    root: usize,
}

impl<T: Number> Sides<'_, T> {
    /// Every side that can be part of a match; best first.
    pub(super) fn list(&self, side: Stretch, ends: &Ends<'_, T>, room: SideSlack<'_, T>) -> Vec<Side<T>> {
        if side.size == 0 {
            return vec![Part { best: T::ZERO, set: 0, row: T::ZERO.each() }];
        }
        if side.is_composed() {
            let mut sides = self.compose(side, ends, room);
            best_first(&mut sides);
            return sides;
        }
        let Some(hung) = &self.hung[side.size] else { return Vec::new() };
        let within = |p: &&Part<T>| T::reaching(room.whole(p.row), ends.limit) != 0;
        hung.below[ends.top].iter().filter(within).copied().collect()
    }

    /// Every side of this size that can be part of a match.
    pub(super) fn compose(&self, side: Stretch, ends: &Ends<'_, T>, room: SideSlack<'_, T>) -> Vec<Side<T>> {
        let mut table = SideTable { sides: Vec::new(), at: vec![0; count(self.m, side.size)] };
        let Some((near, far)) = self.halves(side) else { return table.sides };
        let mut next = Vec::new();
        for root in (0..self.m).filter(|root| *root != ends.top) {
            let below = Root { ends, room, root };
            below.list_far(far, &mut next);
            below.pair(near, far, &next, &mut table);
        }
        for side in &mut table.sides {
            side.row = T::rows_without(side.row, side.set | 1 << ends.top);
            side.best = T::best_lane(side.row);
        }
        table.sides
    }
}

impl<T: Number> Root<'_, T> {
    fn is_too_much(&self, row: T::Row, taken: u32) -> bool {
        T::reaching(self.room.whole(row), self.ends.limit) & !vertices(taken) == 0
    }

    /// The far halves that can go with some near half, best first.
    fn list_far(&self, far: &Hung<T>, next: &mut Vec<Far<T>>) {
        next.clear();
        let (limit, top) = (self.ends.limit, 1_u32 << self.ends.top);
        let least = self.ends.near.least(self.root);
        if self.is_too_much(T::rows_plus(least.each(), far.least[self.root]), top) {
            return;
        }
        let rest = T::best_lane(self.room.rest);
        for b in &far.below[self.root] {
            if limit.ahead(self.room.whole_with(least.plus(b.best), rest)) {
                break;
            }
            let whole = T::best_lane(self.room.whole(b.row));
            if b.set & top == 0 && !limit.ahead(self.room.whole_with(least, whole)) {
                next.push(Far { whole, part: *b });
            }
        }
        next.sort_unstable_by_key(|far| far.whole.units().unwrap_or(u32::MAX));
    }

    /// Near halves with far ones.
    fn pair(&self, near: &Hung<T>, far: &Hung<T>, next: &[Far<T>], table: &mut SideTable<T>) {
        let Some(Far { whole, .. }) = next.first() else { return };
        let limit = self.ends.limit;
        let within = |row| T::reaching(self.room.rows_with(row, *whole), limit);
        for (at, lacks) in self.ends.near.select(self.root, within) {
            let (a, apart) = (&near.below[self.root][at], far.apart[self.root][at]);
            let taken = a.set | 1 << self.ends.top | 1 << self.root;
            let far_half = T::rows_least(far.least[self.root], apart.each());
            let bound = T::rows_plus(lacks.each(), far_half);
            let hopeless =
                self.is_too_much(bound, taken) || self.room.has_no_other(T::best_lane(bound), taken, limit);
            if !hopeless {
                self.pair_one(a.set | 1 << self.root, lacks, next, table);
            }
        }
    }

    /// A near half with its root, which lack so much, with far halves.
    fn pair_one(&self, half: u32, lacks: T, next: &[Far<T>], table: &mut SideTable<T>) {
        let taken = half | 1 << self.ends.top;
        for Far { whole, part } in next {
            if self.ends.limit.ahead(self.room.whole_with(lacks, *whole)) {
                return;
            }
            if part.set & taken == 0 {
                let row = T::rows_plus(lacks.each(), part.row);
                if !self.is_too_much(row, taken) {
                    table.add(half | part.set, row);
                }
            }
        }
    }
}
