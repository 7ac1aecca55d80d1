//! Lacks of the near halves of composed sides for one top.

use super::hung::Part;
use crate::limits::MOST_FREE;
use crate::search::number::Number;
use crate::search::subsets::bits;

/// Lacks of near halves with their root, by the root.
pub(super) struct NearHalves<T: Number> {
    below: Vec<Vec<T::Row>>,
}

impl<T: Number> NearHalves<T> {
    /// `near`: by root. `edge`: what the edge from a root to the top lacks, with the root's price.
    pub(super) fn new(near: &[Vec<Part<T>>], top: usize, edge: impl Fn(usize) -> T) -> Self {
        let rows = |root: usize| {
            let lacks = |part: Option<&Part<T>>| part.map_or(T::NONE, |p| T::lane(&p.row, top));
            let row = |parts: &[Part<T>]| T::row(std::array::from_fn(|i| lacks(parts.get(i))));
            let edge = edge(root).each();
            near[root].chunks(MOST_FREE).map(|parts| T::rows_plus(row(parts), edge)).collect()
        };
        Self {
            below: (0..near.len()).map(|root| if root == top { Vec::new() } else { rows(root) }).collect(),
        }
    }

    /// The least that one below this root lacks.
    pub(super) fn least(&self, root: usize) -> T {
        T::best_lane(self.below[root].iter().copied().fold(T::NONE.each(), T::rows_most))
    }

    /// Position among the near halves below this root of each that `are` may be of use, and what it lacks.
    pub(super) fn select(
        &self,
        root: usize,
        are: impl Fn(T::Row) -> u16,
    ) -> impl Iterator<Item = (usize, T)> {
        let of_row = move |(i, row): (usize, &T::Row)| {
            let row = *row;
            bits(u32::from(are(row))).map(move |lane| (i * MOST_FREE + lane, T::lane(&row, lane)))
        };
        self.below[root].iter().enumerate().flat_map(of_row)
    }
}
