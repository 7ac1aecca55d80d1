//! Stretches of up to three ranks, hung below a vertex.

use super::super::number::{Number, Weights};
use super::super::ranks::RANKS;
use super::super::space::{bits, subsets};
use super::Stretch;

/// A stretch on exactly this set: lanes are its far end's other neighbour.
#[derive(Clone, Copy)]
pub(super) struct Part<T: Number> {
    /// The best lane.
    pub(super) best: T,
    pub(super) set: u32,
    pub(super) row: T::Row,
}

/// What stretches of one size lack with the edges that leave them: from root and near end to the vertex above, from
/// the far end to the lane.
pub(super) struct Hung<T: Number> {
    /// By the vertex above, best first; only those that have a match.
    pub(super) below: Vec<Vec<Part<T>>>,
    /// The best row by the vertex above.
    pub(super) least: Vec<T::Row>,
    /// By the vertex above, for each near half below it: what one of these on other vertices lacks at least.
    pub(super) apart: Vec<Vec<T>>,
}

/// The stretches that sides of these sizes are, or are put together from, by size.
pub(super) fn needed<T: Number>(
    weights: &Weights<T>,
    (left, right): (Stretch, Stretch),
) -> [Option<Hung<T>>; 4] {
    let parts = |side: Stretch| if side.is_composed() { side.halves() } else { (side, side) };
    let needs = |side: Stretch, size: usize| {
        let (near, far) = parts(side);
        side.size > 0 && (near.size == size || far.size == size)
    };
    let mut hung =
        [0, 1, 2, 3].map(|size| (needs(left, size) || needs(right, size)).then(|| Hung::new(weights, size)));
    if left.is_composed() {
        // Every near half has three ranks.
        let near = hung[3].as_ref().map_or(Vec::new(), |h| h.below.clone());
        hung.iter_mut().flatten().for_each(|h| h.find_apart(&near));
    }
    hung
}

impl<T: Number> Hung<T> {
    /// A stretch of no rank is only the edge from the vertex above, which is then the far end itself.
    fn new(weights: &Weights<T>, size: usize) -> Self {
        let m = weights.rows.len();
        let below_one = |above: usize| {
            let part = |set: u32| {
                let row = T::rows_without(row(weights, set, above), set | 1 << above);
                Part { best: T::best_lane(row), set, row }
            };
            let sets = subsets(m, size).filter(|set| set & 1 << above == 0);
            let mut parts: Vec<Part<T>> = sets.map(part).filter(|p| p.best.units().is_some()).collect();
            parts.sort_unstable_by_key(|p| p.best.units());
            parts
        };
        let below: Vec<Vec<Part<T>>> = (0..m).map(below_one).collect();
        let least = below.iter().map(|parts| least(parts)).collect();
        Self { below, least, apart: Vec::new() }
    }

    fn find_apart(&mut self, near: &[Vec<Part<T>>]) {
        let of = |above: usize, a: &Part<T>| {
            let apart = self.below[above].iter().find(|b| b.set & a.set == 0);
            apart.map_or(T::NONE, |b| b.best)
        };
        let each = near.iter().enumerate().map(|(above, parts)| parts.iter().map(|a| of(above, a)).collect());
        self.apart = each.collect();
    }

    /// The rows below a vertex by the position of their sets among `sets`.
    pub(super) fn by_position(&self, above: usize, sets: usize) -> Vec<T::Row> {
        let mut rows = vec![T::NONE.each(); sets];
        self.below[above].iter().for_each(|p| rows[RANKS.of(p.set)] = p.row);
        rows
    }
}

/// The best of each lane.
pub(super) fn least<T: Number>(parts: &[Part<T>]) -> T::Row {
    parts.iter().fold(T::NONE.each(), |least, p| T::rows_most(least, p.row))
}

/// One stretch with its best order.
fn row<T: Number>(weights: &Weights<T>, set: u32, above: usize) -> T::Row {
    let of = &weights.of;
    let mut members = [0; Stretch::MOST_HUNG];
    bits(set).zip(&mut members).for_each(|(v, member)| *member = v);
    let [a, b, c] = members;
    let with_far = |far: usize, inner: T| T::rows_plus(weights.rows[far], inner.each());
    match set.count_ones() {
        0 => weights.rows[above],
        1 => with_far(a, of[a][above]),
        2 => {
            // The far end is the root.
            let inner = of[a][b].plus(of[a][above]).plus(of[b][above]);
            T::rows_most(with_far(a, inner), with_far(b, inner))
        }
        _ => {
            let ended_by = |far: usize, x: usize, y: usize| {
                let root = if of[y][far].ahead(of[x][far]) { y } else { x };
                let inner = of[x][y].plus(of[x][above]).plus(of[y][above]);
                with_far(far, inner.plus(of[root][far]))
            };
            T::rows_most(T::rows_most(ended_by(a, b, c), ended_by(b, a, c)), ended_by(c, a, b))
        }
    }
}
