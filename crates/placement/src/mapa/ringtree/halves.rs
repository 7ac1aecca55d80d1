//! The two halves of a stretch below its root, and the least that they can lack.

use super::super::number::Number;
use super::super::ranks::RANKS;
use super::super::space::{MOST_FREE, bits, subsets};
use super::{RingTree, Table};

/// A right half: its far ends, and what it lacks below each root by far end.
pub(super) struct Right<T> {
    pub(super) ends: [usize; 3],
    pub(super) lacks: Vec<[T; 3]>,
}

/// The halves of stretches below a root, and what they lack together.
pub(super) struct Halves<T: Number> {
    /// Ranks of the left half and of the right one.
    pub(super) sizes: (usize, usize),
    /// By root and left set: lanes are the vertex above.
    pub(super) left: Vec<Vec<T::Row>>,
    /// The best lane of those, lanes are the root.
    pub(super) best_left: Vec<[T; MOST_FREE]>,
    /// By right set; without a right half the root is the far end.
    pub(super) right: Vec<Right<T>>,
    pub(super) best_right: Vec<[T; MOST_FREE]>,
    /// What both halves on a set lack at least, by set: lanes are the root.
    pub(super) both: Vec<[T; MOST_FREE]>,
    /// The same for a stretch with its root, at least, by the vertices that it may take.
    pub(super) least: Vec<T>,
    /// Both of these again, without the two edges to the vertex above.
    pub(super) both_inner: Vec<[T; MOST_FREE]>,
    pub(super) least_inner: Vec<T>,
}

pub(super) fn best<T: Number>(a: T, b: T) -> T {
    if b.ahead(a) { b } else { a }
}

/// For each set of vertices the best over its parts.
pub(super) fn over_parts<T: Number>(m: usize, values: impl Iterator<Item = (u32, T)>) -> Vec<T> {
    let mut least = vec![T::NONE; 1 << m];
    values.for_each(|(set, lacks)| least[set as usize] = lacks);
    for v in 0..m {
        for block in least.chunks_mut(2 << v) {
            let (without, with) = block.split_at_mut(1 << v);
            with.iter_mut().zip(without).for_each(|(a, b)| *a = best(*a, *b));
        }
    }
    least
}

impl<T: Number> Halves<T> {
    pub(super) fn new(search: &RingTree<'_, T>, left: &Table<T>, right: &Table<T>) -> Self {
        let (m, weights) = (search.m, search.weights);
        let row = |at: usize, root: usize| {
            let set = left.sets[at];
            let row = T::rows_plus(search.closed(left, at, root), weights.rows[root]);
            if set & 1 << root == 0 { T::rows_without(row, set) } else { T::NONE.each() }
        };
        let rows: Vec<Vec<T::Row>> =
            (0..m).map(|root| (0..left.sets.len()).map(|at| row(at, root)).collect()).collect();
        let lanes = |at: usize| std::array::from_fn(|v| rows.get(v).map_or(T::NONE, |r| T::best_lane(r[at])));
        let best_left: Vec<[T; MOST_FREE]> = (0..left.sets.len()).map(lanes).collect();
        let right_size = right.size;
        let of = |(at, set): (usize, &u32)| {
            let mut ends = [0; 3];
            bits(*set).zip(&mut ends).for_each(|(v, end)| *end = v);
            let lack = |end: usize, root: usize| {
                if end < right.size { T::lane(&right.rows[at * right.size + end], root) } else { T::NONE }
            };
            Right { ends, lacks: (0..m).map(|root| std::array::from_fn(|end| lack(end, root))).collect() }
        };
        let right: Vec<Right<T>> = right.sets.iter().enumerate().map(of).collect();
        let best_of = |r: &Right<T>| {
            std::array::from_fn(|v| r.lacks.get(v).map_or(T::NONE, |l| l.iter().copied().fold(T::NONE, best)))
        };
        let best_right: Vec<[T; MOST_FREE]> = right.iter().map(best_of).collect();
        let sizes = (left.size, right_size);
        let inner: Vec<[T; MOST_FREE]> = left.best.iter().map(|row| T::lanes(*row)).collect();
        let both = Self::both(sizes, m, &best_left, &best_right);
        let both_inner = Self::both(sizes, m, &inner, &best_right);
        let (least, least_inner) = (Self::rooted(sizes, m, &both), Self::rooted(sizes, m, &both_inner));
        Self { sizes, left: rows, best_left, right, best_right, both, least, both_inner, least_inner }
    }

    /// With the best root, by the vertices that the stretch may take.
    fn rooted(sizes: (usize, usize), m: usize, both: &[[T; MOST_FREE]]) -> Vec<T> {
        let whole = subsets(m, sizes.0 + sizes.1 + 1).map(|set| {
            let rooted = bits(set).map(|root| both[RANKS.of(set ^ 1 << root)][root]);
            (set, rooted.fold(T::NONE, best))
        });
        over_parts(m, whole)
    }

    fn both(
        sizes: (usize, usize),
        m: usize,
        left: &[[T; MOST_FREE]],
        right: &[[T; MOST_FREE]],
    ) -> Vec<[T; MOST_FREE]> {
        if sizes.1 == 0 {
            return left.to_vec();
        }
        let row = |lanes: &[T; MOST_FREE]| T::row(*lanes);
        let (left, right): (Vec<T::Row>, Vec<T::Row>) =
            (left.iter().map(row).collect(), right.iter().map(row).collect());
        let of = |set: u32| {
            RANKS.parts(set, sizes.0, false, T::NONE.each(), |best, a, b| {
                T::rows_most(best, T::rows_plus(left[a], right[b]))
            })
        };
        subsets(m, sizes.0 + sizes.1).map(|set| T::lanes(of(set))).collect()
    }
}
