//! Stretches of up to three ranks, hung below a vertex.

use super::stretch::Stretch;
use crate::search::number::{Number, Weights};
use crate::search::set_positions::POSITIONS;
use crate::search::subsets::{bits, count, subsets};

/// A stretch on exactly this set; the lanes of `row` are the vertices of its far end's other neighbour.
#[derive(Clone, Copy)]
pub(super) struct Part<T: Number> {
    /// The best lane.
    pub(super) best: T,
    pub(super) set: u32,
    pub(super) row: T::Row,
}

/// Lacks of stretches of one size, including the edges that leave them: from root and near end to the vertex above, and
/// from the far end to the vertex of the lane.
pub(super) struct Hung<T: Number> {
    /// By the vertex above, best first; only those that have a match.
    pub(super) below: Vec<Vec<Part<T>>>,
    /// By the vertex above, the best of each lane.
    pub(super) least: Vec<T::Row>,
    /// By the vertex above, for each near half below it: what a stretch of this size on other vertices lacks at least.
    pub(super) apart: Vec<Vec<T>>,
}

/// Sorts parts by what they lack at best.
pub(super) fn best_first<T: Number>(parts: &mut [Part<T>]) {
    parts.sort_unstable_by_key(|p| p.best.units().unwrap_or(u32::MAX));
}

impl<T: Number> Hung<T> {
    /// A stretch of no rank is only the edge from the vertex above, which is then the far end itself.
    pub(super) fn new(weights: &Weights<T>, size: usize) -> Self {
        let m = weights.rows.len();
        let mut below = vec![Vec::with_capacity(count(m, size)); m];
        for set in subsets(m, size) {
            let ends = FarEnds::of(weights, set);
            for (above, parts) in below.iter_mut().enumerate().filter(|(above, _)| set >> above & 1 == 0) {
                let row = T::rows_without(ends.row(weights, above), set | 1 << above);
                let best = T::best_lane(row);
                if best.units().is_some() {
                    parts.push(Part { best, set, row });
                }
            }
        }
        Self { below, least: Vec::new(), apart: Vec::new() }
    }

    /// Returns the part of `apart` for these near halves.
    pub(super) fn apart_from(&self, near: &[Vec<Part<T>>]) -> Vec<Vec<T>> {
        let of = |parts: &[Part<T>], a: &Part<T>| {
            parts.iter().find(|b| b.set & a.set == 0).map_or(T::NONE, |b| b.best)
        };
        let each = near.iter().zip(&self.below);
        each.map(|(near, parts)| near.iter().map(|a| of(parts, a)).collect()).collect()
    }

    /// The rows below a vertex by the position of their sets among `sets`.
    pub(super) fn by_position(&self, above: usize, sets: usize) -> Vec<T::Row> {
        let mut rows = vec![T::NONE.each(); sets];
        self.below[above].iter().for_each(|p| rows[POSITIONS.of(p.set)] = p.row);
        rows
    }
}

/// The best of each lane.
pub(super) fn least<T: Number>(parts: &[Part<T>]) -> T::Row {
    parts.iter().fold(T::NONE.each(), |least, p| T::rows_most(least, p.row))
}

/// The orders of a stretch on one set, by its far end.
struct FarEnds<T: Number> {
    /// Per possible far end: that vertex, and what all edges lack but the one that leaves there; lanes are the vertex above.
    of: [(usize, T::Row); Stretch::MOST_HUNG],
    size: usize,
}

impl<T: Number> FarEnds<T> {
    fn of(weights: &Weights<T>, set: u32) -> Self {
        let (of, rows) = (&weights.of, &weights.rows);
        let mut members = [0; Stretch::MOST_HUNG];
        bits(set).zip(&mut members).for_each(|(v, member)| *member = v);
        let [a, b, c] = members;
        let size = set.count_ones() as usize;
        let both = |x: usize, y: usize, edges: T| T::rows_plus(T::rows_plus(rows[x], rows[y]), edges.each());
        let none = (0, T::ZERO.each());
        let of = match size {
            0 => [none; 3],
            1 => [(a, rows[a]), none, none],
            2 => {
                // The far end is the root.
                let lacks = both(a, b, of[a][b]);
                [(a, lacks), (b, lacks), none]
            }
            _ => [(a, b, c), (b, a, c), (c, a, b)].map(|(far, x, y)| {
                let root = if of[y][far].ahead(of[x][far]) { y } else { x };
                (far, both(x, y, of[x][y].plus(of[root][far])))
            }),
        };
        Self { of, size }
    }

    /// The best order below one vertex.
    fn row(&self, weights: &Weights<T>, above: usize) -> T::Row {
        let with =
            |(far, lacks): &(usize, T::Row)| T::rows_plus(weights.rows[*far], T::lane(lacks, above).each());
        match self.size {
            // Only the edge from the vertex above, which is then the far end itself.
            0 => weights.rows[above],
            size => self.of[..size].iter().map(with).fold(T::NONE.each(), T::rows_most),
        }
    }
}
