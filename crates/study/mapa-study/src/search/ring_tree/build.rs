//! Works out which rank is on which vertex of a match, from the top down: the search keeps only sets of vertices.

use super::stretch::Stretch;
use crate::search::number::{Number, Weights};
use crate::search::subsets::{bits, subsets};

/// The vertices of a match but rank 0: left side, right side and top.
#[derive(Clone, Copy)]
pub(super) struct Sections {
    pub(super) left: u32,
    pub(super) right: u32,
    pub(super) top: usize,
}

impl Sections {
    pub(super) fn set(self) -> u32 {
        self.left | self.right | 1 << self.top
    }
}

/// A match as the search finds it: which ranks of a section are on which of its vertices is worked out by
/// [`SectionsMatch::ranks`].
#[derive(Clone, Copy)]
pub(super) struct SectionsMatch<T: Number> {
    pub(super) lacks: T,
    pub(super) sections: Sections,
    /// The vertex of rank 0.
    pub(super) zero: usize,
}

impl<T: Number> SectionsMatch<T> {
    /// The vertex of each of `n` ranks.
    pub(super) fn ranks(self, weights: &Weights<T>, n: usize) -> Vec<usize> {
        let Self { sections: Sections { left, right, top }, zero, .. } = self;
        let middle = 1 + left.count_ones() as usize;
        let (mut order, build) = (vec![0; n], Build { weights });
        (order[0], order[middle]) = (zero, top);
        build.place(left, (top, zero), &mut |at, v| order[middle - at] = v);
        build.place(right, (top, zero), &mut |at, v| order[middle + at] = v);
        order
    }
}

/// Works out the places of ranks within sections.
struct Build<'a, T: Number> {
    weights: &'a Weights<T>,
}

impl<T: Number> Build<'_, T> {
    /// Returns the lack of a stretch on a set below `above`, with the far neighbour on `beyond`.
    fn hung(&self, set: u32, above: usize, beyond: usize) -> T {
        match set.count_ones() {
            0 => T::ZERO,
            1 => {
                let v = set.trailing_zeros() as usize;
                self.weights.of[v][above].plus(self.weights.of[v][beyond])
            }
            _ => self.split(set, above, beyond).map_or(T::NONE, |(_, _, lacks)| lacks),
        }
    }

    /// The best root of a stretch and the set of its left half.
    fn split(&self, set: u32, above: usize, beyond: usize) -> Option<(usize, u32, T)> {
        let (left, right) = Stretch { size: set.count_ones() as usize }.halves();
        let mut best: Option<(usize, u32, T)> = None;
        for root in bits(set) {
            let rest = set ^ 1 << root;
            let edge = self.weights.of[root][above];
            // Without a right half the root is the far end.
            let edge = if right.size == 0 { edge.plus(self.weights.of[root][beyond]) } else { edge };
            for part in parts(rest, left.size) {
                let lacks = edge.plus(self.hung(part, root, above));
                if best.is_none_or(|(_, _, b)| lacks.ahead(b)) {
                    let lacks = lacks.plus(self.hung(rest ^ part, root, beyond));
                    if best.is_none_or(|(_, _, b)| lacks.ahead(b)) {
                        best = Some((root, part, lacks));
                    }
                }
            }
        }
        best
    }

    /// Calls `put` with the place of each rank, counted from the near end of the stretch from 1, and its vertex.
    fn place(&self, set: u32, (above, beyond): (usize, usize), put: &mut dyn FnMut(usize, usize)) {
        match set.count_ones() {
            0 => {}
            1 => put(1, set.trailing_zeros() as usize),
            size => {
                let Some((root, part, _)) = self.split(set, above, beyond) else { return };
                let middle = Stretch { size: size as usize }.halves().0.size + 1;
                put(middle, root);
                self.place(part, (root, above), &mut |at, v| put(middle - at, v));
                self.place(set ^ part ^ 1 << root, (root, beyond), &mut |at, v| put(middle + at, v));
            }
        }
    }
}

/// The parts of a set that have `size` vertices.
fn parts(set: u32, size: usize) -> impl Iterator<Item = u32> {
    let members: Vec<usize> = bits(set).collect();
    subsets(members.len(), size).map(move |part| bits(part).fold(0, |s, i| s | 1 << members[i]))
}
