//! The tables over subsets, filled from the leaves up, and matches read off them.

use super::cell::{Cell, SumsCell};
use super::shape::TreeShape;
use crate::search::hill_climb;
use crate::search::number::{Number, Weights, best_of};
use crate::search::set_positions::POSITIONS;
use crate::search::subsets::{bits, count, subsets};

/// The tables of one search, by shape; rows are in the order of [`subsets`].
pub(in crate::search) struct TreeTable<C> {
    m: usize,
    rooted: Vec<Vec<C>>,
    hung: Vec<Vec<C>>,
    /// By shape and child, from the second child on: the first children up to that one, hung below one vertex.
    folds: Vec<Vec<Vec<C>>>,
}

impl<C: Cell> TreeTable<C> {
    fn fill(shape: &TreeShape, m: usize, limit: &C::Limit, hang: impl Fn(u32, &C) -> C) -> Self {
        let mut table = Self { m, rooted: Vec::new(), hung: Vec::new(), folds: Vec::new() };
        for (id, children) in shape.children.iter().enumerate() {
            let folds = table.fold(shape, children, limit);
            table.folds.push(folds);
            let size = shape.size[id];
            let all = children.len().checked_sub(1).map(|last| table.below(shape, id, last));
            let below = |rest: u32| all.map(|rows| rows[POSITIONS.of(rest)]);
            let rooted: Vec<C> = subsets(m, size).map(|mask| C::root(mask, below)).collect();
            let whole = id + 1 == shape.children.len();
            let sets = subsets(m, size).zip(&rooted).filter(|_| !whole);
            let hung = sets.map(|(mask, row)| hang(mask, row)).collect();
            table.rooted.push(rooted);
            table.hung.push(hung);
        }
        table
    }

    /// The first children of a shape up to this one, hung below one vertex.
    fn below(&self, shape: &TreeShape, id: usize, child: usize) -> &[C] {
        match child.checked_sub(1) {
            None => &self.hung[shape.children[id][0]],
            Some(at) => &self.folds[id][at],
        }
    }

    fn fold(&self, shape: &TreeShape, children: &[usize], limit: &C::Limit) -> Vec<Vec<C>> {
        let mut folds: Vec<Vec<C>> = Vec::new();
        let mut size = children.first().map_or(0, |c| shape.size[*c]);
        for (k, child) in children.iter().enumerate().skip(1) {
            let before = folds.last().unwrap_or(&self.hung[children[0]]);
            // Two subtrees of one shape may change places: the first takes the set's lowest vertex.
            let twins = k == 1 && children[0] == *child;
            let sizes = (size, shape.size[*child]);
            let fold = self.split((before, &self.hung[*child]), sizes, twins, C::most(limit));
            folds.push(fold);
            size += shape.size[*child];
        }
        folds
    }

    /// The best way to hang subtrees of `before` and of `next` on disjoint sets below one vertex, for every union.
    fn split(
        &self,
        (before, next): (&[C], &[C]),
        (size, more): (usize, usize),
        twins: bool,
        most: u32,
    ) -> Vec<C> {
        let total = size + more;
        let mut fold = vec![C::nothing(); count(self.m, total)];
        let least = |rows: &[C]| rows.iter().map(Cell::lacks).min().unwrap_or(u32::MAX);
        let list = |rows: &[C], k: usize, other: u32| {
            let lacking = rows.iter().zip(subsets(self.m, k)).map(|(row, set)| (row.lacks(), set));
            lacking.filter(|(lacks, _)| lacks.saturating_add(other) <= most).collect::<Vec<(u32, u32)>>()
        };
        let (first, mut second) = (list(before, size, least(next)), list(next, more, least(before)));
        second.sort_unstable();
        // How many of `second` can go with a set: they are sorted.
        let partners = |lacks: u32| second.partition_point(|(other, _)| lacks.saturating_add(*other) <= most);
        let pairs: usize = first.iter().map(|(lacks, _)| partners(*lacks)).sum();
        if pairs < count(total, size) / (1 + usize::from(twins)) * fold.len() {
            for (lacks, a) in &first {
                for (_, b) in second[..partners(*lacks)].iter().filter(|(_, b)| a & b == 0) {
                    let both = before[POSITIONS.of(*a)].both(next[POSITIONS.of(*b)]);
                    let at = POSITIONS.of(a | b);
                    fold[at] = fold[at].better(both);
                }
            }
            return fold;
        }
        for (mask, best) in subsets(self.m, total).zip(&mut fold) {
            let better = |best: C, a: usize, b: usize| best.better(before[a].both(next[b]));
            *best = POSITIONS.parts(mask, size, twins, C::nothing(), better);
        }
        fold
    }
}

/// For each set of as many vertices as the tree has, in the order of [`subsets`], whether the tree fits on these links.
/// `adjacent`: by vertex, the vertices linked to it.
pub(in crate::search) fn feasible(shape: &TreeShape, adjacent: &[u32]) -> Vec<bool> {
    let hang = |mask: u32, rooted: &u16| {
        let near = bits(u32::from(*rooted)).fold(0, |set, u| set | adjacent[u]) & !mask;
        (near & 0xffff) as u16
    };
    let table = TreeTable::<u16>::fill(shape, adjacent.len(), &(), hang);
    table.rooted.last().map(|rows| rows.iter().map(|row| *row != 0).collect()).unwrap_or_default()
}

/// The tables for the sets with the best matches; others may lack an entry.
pub(in crate::search) fn sums<T: Number>(shape: &TreeShape, weights: &Weights<T>) -> TreeTable<SumsCell<T>> {
    let limit = hill_climb::limit(weights, &shape.edges(), shape.of_rank.len());
    sums_within(shape, weights, limit)
}

/// The tables for all matches that lack at most `limit`.
pub(in crate::search) fn sums_within<T: Number>(
    shape: &TreeShape,
    weights: &Weights<T>,
    limit: T,
) -> TreeTable<SumsCell<T>> {
    let hang = |mask: u32, rooted: &SumsCell<T>| {
        let (mut row, lanes) = (T::NONE.each(), T::lanes(rooted.0));
        for u in bits(mask) {
            row = T::rows_most(row, T::rows_plus(weights.rows[u], lanes[u].each()));
        }
        SumsCell(row)
    };
    TreeTable::fill(shape, weights.rows.len(), &limit, hang)
}

impl<T: Number> TreeTable<SumsCell<T>> {
    /// Returns the lack of the best match of each set, in the order of [`subsets`]; [`Number::NONE`] for sets without a match within
    /// the limit.
    pub(in crate::search) fn values(&self) -> Vec<T> {
        self.rooted.last().map(|rows| rows.iter().map(|s| T::best_lane(s.0)).collect()).unwrap_or_default()
    }

    /// A match of the largest sum on this set: the vertex of each rank.
    pub(in crate::search) fn order(&self, shape: &TreeShape, weights: &Weights<T>, mask: u32) -> Vec<usize> {
        let mut order = vec![0; shape.of_rank.len()];
        let row = self.rooted[shape.of_rank[0]][POSITIONS.of(mask)];
        if let Some(root) = best_of::<T>(row.0, mask) {
            self.place((shape, weights), 0, mask, root, &mut order);
        }
        order
    }

    fn place(&self, of: (&TreeShape, &Weights<T>), rank: usize, mask: u32, v: usize, order: &mut [usize]) {
        order[rank] = v;
        let (shape, weights) = of;
        let mut left = mask ^ 1 << v;
        for k in (0..shape.below[rank].len()).rev() {
            let child = shape.children[shape.of_rank[rank]][k];
            let part = if k == 0 { left } else { self.last_part((shape, rank), k, left, v) };
            left ^= part;
            let row = T::rows_plus(self.rooted[child][POSITIONS.of(part)].0, weights.rows[v]);
            if let Some(root) = best_of::<T>(row, part) {
                self.place(of, shape.below[rank][k], part, root, order);
            }
        }
    }

    /// The part of `mask` that the `k`th child of a rank on `v` takes in a best split.
    fn last_part(&self, (shape, rank): (&TreeShape, usize), k: usize, mask: u32, v: usize) -> u32 {
        let id = shape.of_rank[rank];
        let (before, child) = (self.below(shape, id, k - 1), shape.children[id][k]);
        let lane = |rows: &[SumsCell<T>], set: u32| T::lane(&rows[POSITIONS.of(set)].0, v);
        let worth = |part: u32| lane(before, mask ^ part).plus(lane(&self.hung[child], part));
        let parts = subsets(self.m, shape.size[child]).filter(|part| part & !mask == 0);
        parts.reduce(|best, part| if worth(part).ahead(worth(best)) { part } else { best }).unwrap_or(mask)
    }
}
