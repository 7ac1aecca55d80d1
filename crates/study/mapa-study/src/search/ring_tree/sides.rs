//! The stretches on both sides of the top, and the bounds on what they may lack.

use super::hung::{Hung, Part};
use super::near::NearHalves;
use super::stretch::{Stretch, vertices};
use crate::search::number::Number;

/// A side of the top: lanes are rank 0.
pub(super) type Side<T> = Part<T>;

/// The top of a match, with what depends on it alone.
#[derive(Clone, Copy)]
pub(super) struct Ends<'a, T: Number> {
    pub(super) top: usize,
    /// What the edge from the top to rank 0 lacks, with the prices of both.
    pub(super) edge: T::Row,
    /// What near halves lack; empty unless sides are composed.
    pub(super) near: &'a NearHalves<T>,
    /// What a match may lack at most, with prices.
    pub(super) limit: T,
}

/// What sides are made from.
pub(super) struct Sides<'a, T: Number> {
    pub(super) hung: &'a [Option<Hung<T>>; 4],
    pub(super) m: usize,
}

/// What a side may lack.
#[derive(Clone, Copy)]
pub(super) struct SideSlack<'a, T: Number> {
    /// What the rest of the match lacks at least, by rank 0.
    pub(super) rest: T::Row,
    /// The other side lacks as much as this one or more, and `rest` is without it.
    pub(super) twice: bool,
    pub(super) others: Option<Others<'a, T>>,
}

/// The other sides that are known.
#[derive(Clone, Copy)]
pub(super) struct Others<'a, T: Number> {
    /// Those within the limit, best first.
    pub(super) sides: &'a [Side<T>],
    /// What each that is not among them lacks at least.
    pub(super) more: T,
    /// What the edge from the top to rank 0 lacks at least.
    pub(super) edge: T,
}

/// How many of the other sides are searched for one on other vertices.
const FEW: usize = 48;

impl<T: Number> SideSlack<'_, T> {
    /// What a match with a side like this row lacks at least.
    pub(super) fn whole(&self, row: T::Row) -> T::Row {
        let row = if self.twice { T::rows_plus(row, row) } else { row };
        T::rows_plus(row, self.rest)
    }

    /// What a match lacks at least if its side lacks `lacks` more than a side whose match lacks `known`.
    pub(super) fn whole_with(&self, lacks: T, known: T) -> T {
        let lacks = if self.twice { lacks.plus(lacks) } else { lacks };
        lacks.plus(known)
    }

    /// The same for a row of such sides.
    pub(super) fn rows_with(&self, lacks: T::Row, known: T) -> T::Row {
        let lacks = if self.twice { T::rows_plus(lacks, lacks) } else { lacks };
        T::rows_plus(lacks, known.each())
    }

    /// Whether no other side on vertices outside `taken` makes a match within `limit` with one that lacks `lacks`.
    pub(super) fn has_no_other(&self, lacks: T, taken: u32, limit: T) -> bool {
        let Some(Others { sides, more, edge }) = self.others else { return false };
        let apart = sides.iter().take(FEW).find(|b| b.set & taken == 0);
        // The next ones are no better than this one.
        let least = apart.or(sides.get(FEW)).map_or(more, |b| if more.ahead(b.best) { more } else { b.best });
        limit.ahead(lacks.plus(least).plus(edge))
    }
}

impl<'a, T: Number> Sides<'a, T> {
    /// The two halves of a side.
    pub(super) fn halves(&self, side: Stretch) -> Option<(&'a Hung<T>, &'a Hung<T>)> {
        let (near, far) = side.halves();
        self.hung[near.size].as_ref().zip(self.hung[far.size].as_ref())
    }

    /// What a side lacks at least, by the vertex of rank 0; exact only where that is within the limit.
    pub(super) fn least(&self, side: Stretch, ends: &Ends<'_, T>) -> T::Row {
        match side.size {
            0 => T::ZERO.each(),
            size if !side.is_composed() => {
                self.hung[size].as_ref().map_or(T::NONE.each(), |h| h.least[ends.top])
            }
            _ => self.least_composed(side, ends),
        }
    }

    /// Halves are disjoint here, but only the best lane of the far one is known then.
    fn least_composed(&self, side: Stretch, ends: &Ends<'_, T>) -> T::Row {
        let mut least = T::NONE.each();
        let Some((_, far)) = self.halves(side) else { return least };
        let lanes = vertices(((1 << self.m) - 1) & !(1 << ends.top));
        // The worst lane so far: what reaches it nowhere helps nowhere.
        let mut worst = ends.limit;
        for root in (0..self.m).filter(|root| *root != ends.top) {
            let far_best = T::best_lane(far.least[root]).each();
            let may_help = |row| T::reaching(T::rows_plus(row, far_best), worst);
            for (at, lacks) in ends.near.select(root, may_help) {
                let far_half = T::rows_least(far.least[root], far.apart[root][at].each());
                least = T::rows_most(least, T::rows_plus(lacks.each(), far_half));
            }
            let worst_lane = T::worst_lane(least, lanes);
            worst = if worst_lane.ahead(worst) { worst_lane } else { worst };
        }
        least
    }
}
