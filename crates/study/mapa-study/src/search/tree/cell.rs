//! Contents of a table per set of vertices: sums in lanes, or only whether a match exists.

use crate::limits::MOST_FREE;
use crate::search::number::Number;
use crate::search::subsets::bits;

/// Content of a table per set: sums, with a lane per vertex of the root, or only the vertices where a match exists.
pub(in crate::search) trait Cell: Copy {
    /// The bound on what matches may lack.
    type Limit;
    fn nothing() -> Self;
    /// Two subtrees hung below the same vertex.
    fn both(self, other: Self) -> Self;
    fn better(self, other: Self) -> Self;
    /// The subtrees on a set with the root on each of its vertices. `below` gives what hangs below the root on the rest of
    /// the set, `None` for a leaf.
    fn root(mask: u32, below: impl Fn(u32) -> Option<Self>) -> Self;
    /// The least that any match lacks, in units; more than [`Cell::most`] if there is no match.
    fn lacks(&self) -> u32;
    /// The most that a match may lack under this limit, in units.
    fn most(limit: &Self::Limit) -> u32;
}

/// Lack of the best match, by the vertex of the root.
pub(in crate::search) struct SumsCell<T: Number>(pub(super) T::Row);

impl<T: Number> Clone for SumsCell<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Number> Copy for SumsCell<T> {}

impl<T: Number> Cell for SumsCell<T> {
    type Limit = T;
    fn nothing() -> Self {
        Self(T::NONE.each())
    }
    fn both(self, other: Self) -> Self {
        Self(T::rows_plus(self.0, other.0))
    }
    fn better(self, other: Self) -> Self {
        Self(T::rows_most(self.0, other.0))
    }
    fn root(mask: u32, below: impl Fn(u32) -> Option<Self>) -> Self {
        let mut lanes = [T::NONE; MOST_FREE];
        for v in bits(mask) {
            lanes[v] = below(mask ^ 1 << v).map_or(T::ZERO, |row| T::lane(&row.0, v));
        }
        Self(T::row(lanes))
    }
    fn lacks(&self) -> u32 {
        T::best_lane(self.0).units().unwrap_or(u32::MAX)
    }
    fn most(limit: &T) -> u32 {
        limit.units().unwrap_or(u32::MAX - 1)
    }
}

impl Cell for u16 {
    type Limit = ();
    fn nothing() -> Self {
        0
    }
    fn both(self, other: Self) -> Self {
        self & other
    }
    fn better(self, other: Self) -> Self {
        self | other
    }
    fn root(mask: u32, below: impl Fn(u32) -> Option<Self>) -> Self {
        bits(mask).fold(0, |set, v| set | below(mask ^ 1 << v).unwrap_or(u16::MAX) & 1 << v)
    }
    fn lacks(&self) -> u32 {
        u32::from(*self == 0)
    }
    fn most((): &()) -> u32 {
        0
    }
}
