//! Trees: dynamic programming over subsets, one table per shape of subtree.
//!
//! # Problem
//! Onto which GPU of a set each rank of a tree goes, so that the edges' links add up to most, for every set at once.
//!
//! # Algorithm
//! `rooted[shape][set][v]`: the subtree on exactly `set` with its root on `v`. `hung[shape][set][v]`: the same
//! hanging below `v`, which is not in the set. A root's children are added one after the other: the best way to hang
//! `k` children below `v` on a set is the best split of the set between the first `k - 1` and the last. Subtrees of
//! one shape share a table: a binary tree of 16 ranks has five shapes.
//!
//! # Worst case
//! Steps are (set, split) pairs of 16 lanes. 16 free GPUs, NCCL's tree: 12 ranks, 960 960 pairs.

use super::climb;
use super::number::{Number, Weights, best_of};
use super::ranks::RANKS;
use super::space::{MOST_FREE, bits, count, subsets};
use topology::Edge;

/// A tree of ranks as shapes of its subtrees.
pub(super) struct TreeShape {
    /// Children of each shape, as shapes; a shape comes after its children.
    children: Vec<Vec<usize>>,
    /// Ranks of each shape.
    size: Vec<usize>,
    /// Shape of the subtree of each rank.
    of_rank: Vec<usize>,
    /// Children of each rank, in the order of its shape's children.
    below: Vec<Vec<usize>>,
}

impl TreeShape {
    /// The shapes of a tree with equal weights over `n` ranks; `None` for any other graph.
    pub(super) fn new(edges: &[Edge], n: usize) -> Option<Self> {
        let equal = edges.windows(2).all(|w| (w[0].weight - w[1].weight).abs() < f64::EPSILON);
        if !(2..=MOST_FREE).contains(&n) || edges.len() != n - 1 || !equal {
            return None;
        }
        let mut tree =
            Self { children: Vec::new(), size: Vec::new(), of_rank: vec![0; n], below: vec![Vec::new(); n] };
        let mut seen = 0_u32;
        tree.visit(edges, 0, &mut seen)?;
        (seen.count_ones() as usize == n).then_some(tree)
    }

    /// The tree's edges again.
    pub(super) fn edges(&self) -> Vec<Edge> {
        let below = self.below.iter().enumerate();
        below.flat_map(|(a, ranks)| ranks.iter().map(move |b| Edge { a, b: *b, weight: 1.0 })).collect()
    }

    fn visit(&mut self, edges: &[Edge], rank: usize, seen: &mut u32) -> Option<usize> {
        if *seen & 1 << rank != 0 {
            return None;
        }
        *seen |= 1 << rank;
        let ends = |e: &Edge| if e.a == rank { Some(e.b) } else { (e.b == rank).then_some(e.a) };
        let mut below: Vec<(usize, usize)> = Vec::new();
        let mut parents = 0;
        for next in edges.iter().filter_map(ends) {
            // With n - 1 edges and every rank reached, an edge to a seen rank is the one to the parent.
            if *seen & 1 << next != 0 {
                parents += 1;
            } else {
                below.push((self.visit(edges, next, seen)?, next));
            }
        }
        if parents > 1 {
            return None;
        }
        below.sort_unstable_by_key(|(shape, rank)| (std::cmp::Reverse(self.size[*shape]), *shape, *rank));
        let children: Vec<usize> = below.iter().map(|(shape, _)| *shape).collect();
        let size = 1 + children.iter().map(|c| self.size[*c]).sum::<usize>();
        let shape = self.children.iter().position(|c| *c == children).unwrap_or_else(|| {
            self.children.push(children);
            self.size.push(size);
            self.children.len() - 1
        });
        self.of_rank[rank] = shape;
        self.below[rank] = below.into_iter().map(|(_, rank)| rank).collect();
        Some(shape)
    }
}

/// What a table holds per set: sums in lanes, or only whether there is a match.
pub(super) trait Cell: Copy {
    /// What a match must reach.
    type Limit;
    fn nothing() -> Self;
    /// Both below the same vertex.
    fn both(self, other: Self) -> Self;
    fn better(self, other: Self) -> Self;
    /// Rooted on each vertex of a set, with the rest of it hanging below; `None`: a leaf.
    fn root(mask: u32, below: impl Fn(u32) -> Option<Self>) -> Self;
    /// The least that any match lacks; more than [`Cell::most`] where there is none.
    fn lacks(&self) -> u32;
    /// The most that a match may lack.
    fn most(limit: &Self::Limit) -> u32;
}

/// A row of sums.
pub(super) struct Sums<T: Number>(T::Row);

impl<T: Number> Clone for Sums<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Number> Copy for Sums<T> {}

impl<T: Number> Cell for Sums<T> {
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

/// Tables of one search; rows are in the order of [`subsets`].
pub(super) struct TreeTable<C> {
    m: usize,
    rooted: Vec<Vec<C>>,
    hung: Vec<Vec<C>>,
    /// Per shape, per child from the second on: the first children up to that one hung together.
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
            let below = |rest: u32| all.map(|rows| rows[RANKS.of(rest)]);
            let rooted: Vec<C> = subsets(m, size).map(|mask| C::root(mask, below)).collect();
            let whole = id + 1 == shape.children.len();
            let sets = subsets(m, size).zip(&rooted).filter(|_| !whole);
            let hung = sets.map(|(mask, row)| hang(mask, row)).collect();
            table.rooted.push(rooted);
            table.hung.push(hung);
        }
        table
    }

    /// The first children of a shape up to this one, hung together.
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

    /// The best of hanging the sets of `before` and those of `next` below one vertex.
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
                    let both = before[RANKS.of(*a)].both(next[RANKS.of(*b)]);
                    let at = RANKS.of(a | b);
                    fold[at] = fold[at].better(both);
                }
            }
            return fold;
        }
        for (mask, best) in subsets(self.m, total).zip(&mut fold) {
            let better = |best: C, a: usize, b: usize| best.better(before[a].both(next[b]));
            *best = RANKS.parts(mask, size, twins, C::nothing(), better);
        }
        fold
    }
}

/// For each set of `n` vertices, in the order of [`subsets`], whether the tree fits on links from this adjacency.
pub(super) fn feasible(shape: &TreeShape, adjacent: &[u32]) -> Vec<bool> {
    let hang = |mask: u32, rooted: &u16| {
        let near = bits(u32::from(*rooted)).fold(0, |set, u| set | adjacent[u]) & !mask;
        (near & 0xffff) as u16
    };
    let table = TreeTable::<u16>::fill(shape, adjacent.len(), &(), hang);
    table.rooted.last().map(|rows| rows.iter().map(|row| *row != 0).collect()).unwrap_or_default()
}

/// Sums of the best matches.
pub(super) fn sums<T: Number>(shape: &TreeShape, weights: &Weights<T>) -> TreeTable<Sums<T>> {
    let limit = climb::limit(weights, &shape.edges(), shape.of_rank.len());
    sums_within(shape, weights, limit)
}

/// Sums of the matches that lack at most `limit`.
pub(super) fn sums_within<T: Number>(
    shape: &TreeShape,
    weights: &Weights<T>,
    limit: T,
) -> TreeTable<Sums<T>> {
    let hang = |mask: u32, rooted: &Sums<T>| {
        let (mut row, lanes) = (T::NONE.each(), T::lanes(rooted.0));
        for u in bits(mask) {
            row = T::rows_most(row, T::rows_plus(weights.rows[u], lanes[u].each()));
        }
        Sums(row)
    };
    TreeTable::fill(shape, weights.rows.len(), &limit, hang)
}

impl<T: Number> TreeTable<Sums<T>> {
    /// What the best match lacks for each set, in the order of [`subsets`]; nothing for sets without one of the best.
    pub(super) fn values(&self) -> Vec<T> {
        self.rooted.last().map(|rows| rows.iter().map(|s| T::best_lane(s.0)).collect()).unwrap_or_default()
    }

    /// A match of the largest sum on this set: the vertex of each rank.
    pub(super) fn order(&self, shape: &TreeShape, weights: &Weights<T>, mask: u32) -> Vec<usize> {
        let mut order = vec![0; shape.of_rank.len()];
        let row = self.rooted[shape.of_rank[0]][RANKS.of(mask)];
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
            let row = T::rows_plus(self.rooted[child][RANKS.of(part)].0, weights.rows[v]);
            if let Some(root) = best_of::<T>(row, part) {
                self.place(of, shape.below[rank][k], part, root, order);
            }
        }
    }

    /// The part of `mask` that the `k`th child of a rank on `v` takes in a best split.
    fn last_part(&self, (shape, rank): (&TreeShape, usize), k: usize, mask: u32, v: usize) -> u32 {
        let id = shape.of_rank[rank];
        let (before, child) = (self.below(shape, id, k - 1), shape.children[id][k]);
        let lane = |rows: &[Sums<T>], set: u32| T::lane(&rows[RANKS.of(set)].0, v);
        let worth = |part: u32| lane(before, mask ^ part).plus(lane(&self.hung[child], part));
        let parts = subsets(self.m, shape.size[child]).filter(|part| part & !mask == 0);
        parts.reduce(|best, part| if worth(part).ahead(worth(best)) { part } else { best }).unwrap_or(mask)
    }
}
