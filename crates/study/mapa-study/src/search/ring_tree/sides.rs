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
    /// Lack of the edge from the top to rank 0, with the prices of both.
    pub(super) edge: T::Row,
    /// Lacks of near halves; empty unless sides are composed.
    pub(super) near: &'a NearHalves<T>,
    /// Most that a match may lack, with prices.
    pub(super) limit: T,
}

/// Inputs of the sides.
pub(super) struct Sides<'a, T: Number> {
    pub(super) hung: &'a [Option<Hung<T>>; 4],
    pub(super) m: usize,
}

/// Most that a side may lack.
#[derive(Clone, Copy)]
pub(super) struct SideSlack<'a, T: Number> {
    /// Least lack of the rest of the match, by rank 0.
    pub(super) rest: T::Row,
    /// The other side lacks as much as this one or more, and `rest` is without it.
    pub(super) twice: bool,
    pub(super) others: Option<Others<'a, T>>,
}

/// The other sides that are known.
#[derive(Clone, Copy)]
pub(super) struct Others<'a, T: Number> {
    /// Sides within the limit, best first.
    pub(super) sides: &'a [Side<T>],
    /// Least lack of each side that is not among them.
    pub(super) more: T,
    /// Least lack of the edge from the top to rank 0.
    pub(super) edge: T,
}

/// How many of the other sides are searched for one on other vertices.
const FEW: usize = 48;

impl<T: Number> SideSlack<'_, T> {
    /// Returns the least lack of a match with a side like this row.
    pub(super) fn whole(&self, row: T::Row) -> T::Row {
        let row = if self.twice { T::rows_plus(row, row) } else { row };
        T::rows_plus(row, self.rest)
    }

    /// Returns the least lack of a match if its side lacks `lacks` more than a side whose match lacks `known`.
    pub(super) fn whole_with(&self, lacks: T, known: T) -> T {
        let lacks = if self.twice { lacks.plus(lacks) } else { lacks };
        lacks.plus(known)
    }

    /// Returns the least lack for a row of such sides.
    pub(super) fn rows_with(&self, lacks: T::Row, known: T) -> T::Row {
        let lacks = if self.twice { T::rows_plus(lacks, lacks) } else { lacks };
        T::rows_plus(lacks, known.each())
    }

    /// True if no other side on vertices outside `taken` makes a match within `limit` with one that lacks `lacks`.
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

    /// Returns the least lack of a side, by the vertex of rank 0; exact only if that is within the limit.
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
