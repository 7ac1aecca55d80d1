//! Stretches of up to three ranks, hung below a vertex.

use super::super::number::{Number, Weights};
use super::super::ranks::RANKS;
use super::super::space::{bits, count, subsets};
use super::Stretch;
use super::prices::Prices;

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
    n: usize,
    limit: Option<T>,
    (left, right): (Stretch, Stretch),
) -> (Prices<T>, [Option<Hung<T>>; 4]) {
    let m = weights.rows.len();
    let parts = |side: Stretch| if side.is_composed() { side.halves() } else { (side, side) };
    let needs = |side: Stretch, size: usize| {
        let (near, far) = parts(side);
        side.size > 0 && (near.size == size || far.size == size)
    };
    let mut hung =
        [0, 1, 2, 3].map(|size| (needs(left, size) || needs(right, size)).then(|| Hung::new(weights, size)));
    let of_three = hung[Stretch::MOST_HUNG].as_ref().filter(|_| left.is_composed());
    let prices = of_three.map_or_else(Prices::none, |of_three| Prices::new((m, n), limit, of_three));
    hung.iter_mut().flatten().for_each(|h| h.finish(&prices));
    if left.is_composed() {
        // Every near half has three ranks.
        let near = hung[Stretch::MOST_HUNG].as_ref();
        let apart = hung.each_ref().map(|h| h.as_ref().zip(near).map(|(h, near)| h.apart_from(&near.below)));
        let with = hung.iter_mut().flatten().zip(apart.into_iter().flatten());
        with.for_each(|(hung, apart)| hung.apart = apart);
    }
    (prices, hung)
}

/// Sorts them.
pub(super) fn best_first<T: Number>(parts: &mut [Part<T>]) {
    parts.sort_unstable_by_key(|p| p.best.units().unwrap_or(u32::MAX));
}

impl<T: Number> Hung<T> {
    /// A stretch of no rank is only the edge from the vertex above, which is then the far end itself.
    fn new(weights: &Weights<T>, size: usize) -> Self {
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

    /// With prices.
    fn finish(&mut self, prices: &Prices<T>) {
        for parts in &mut self.below {
            for p in &mut *parts {
                let price = prices.of_set(p.set);
                p.row = T::rows_plus(p.row, price.each());
                p.best = p.best.plus(price);
            }
            best_first(parts);
        }
        self.least = self.below.iter().map(|parts| least(parts)).collect();
    }

    /// For each near half below each vertex: what one of these on other vertices lacks at least.
    fn apart_from(&self, near: &[Vec<Part<T>>]) -> Vec<Vec<T>> {
        let of = |parts: &[Part<T>], a: &Part<T>| {
            parts.iter().find(|b| b.set & a.set == 0).map_or(T::NONE, |b| b.best)
        };
        let each = near.iter().zip(&self.below);
        each.map(|(near, parts)| near.iter().map(|a| of(parts, a)).collect()).collect()
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

/// A stretch on one set, by its far end.
struct FarEnds<T: Number> {
    /// Far end, and what the edges lack that do not leave it at that end; lanes are the vertex above.
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
