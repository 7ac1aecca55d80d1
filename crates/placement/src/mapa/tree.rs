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

use super::pattern::Edge;
use super::space::{Lanes, MOST_FREE, Number, bits, subsets};

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
    const NOTHING: Self;
    /// Small enough for a table with a place for every set, which needs no ranking.
    const SMALL: bool;
    fn single(v: usize) -> Self;
    /// Both below the same vertex.
    fn both(self, other: Self) -> Self;
    fn better(self, other: Self) -> Self;
    /// Keeps lane `v` only.
    fn take(&mut self, from: &Self, v: usize);
    /// Known to match nothing.
    fn is_nothing(&self) -> bool;
}

impl<T: Number> Cell for Lanes<T> {
    const NOTHING: Self = [T::NONE; MOST_FREE];
    const SMALL: bool = false;
    fn single(v: usize) -> Self {
        let mut row = Self::NOTHING;
        row[v] = T::ZERO;
        row
    }
    fn both(self, other: Self) -> Self {
        let mut out = Self::NOTHING;
        for i in 0..MOST_FREE {
            out[i] = self[i].plus(other[i]);
        }
        out
    }
    fn better(self, other: Self) -> Self {
        let mut out = self;
        for i in 0..MOST_FREE {
            out[i] = out[i].most(other[i]);
        }
        out
    }
    fn take(&mut self, from: &Self, v: usize) {
        self[v] = from[v].most(T::NONE);
    }
    fn is_nothing(&self) -> bool {
        false
    }
}

impl Cell for u16 {
    const NOTHING: Self = 0;
    const SMALL: bool = true;
    fn single(v: usize) -> Self {
        1 << v
    }
    fn both(self, other: Self) -> Self {
        self & other
    }
    fn better(self, other: Self) -> Self {
        self | other
    }
    fn take(&mut self, from: &Self, v: usize) {
        *self |= from & 1 << v;
    }
    fn is_nothing(&self) -> bool {
        *self == 0
    }
}

/// Position of each set among the sets of its size.
struct Ranking(Vec<u16>);

impl Ranking {
    fn new(m: usize) -> Self {
        let mut next = [0_u16; MOST_FREE + 1];
        // Sets in ascending order, as `subsets` lists them.
        let rank = |mask: u32| {
            let at = next[mask.count_ones() as usize];
            next[mask.count_ones() as usize] += 1;
            at
        };
        Self((0..1_u32 << m).map(rank).collect())
    }

    fn of(&self, mask: u32) -> usize {
        usize::from(self.0[mask as usize])
    }
}

/// Tables of one search.
pub(super) struct TreeTable<C> {
    m: usize,
    ranking: Ranking,
    rooted: Vec<Vec<C>>,
    hung: Vec<Vec<C>>,
    /// Per shape, per child: the first children up to that one hung together.
    folds: Vec<Vec<Vec<C>>>,
}

/// How a rooted table becomes a hung one.
type Hang<'a, C> = &'a dyn Fn(u32, &C) -> C;

impl<C: Cell> TreeTable<C> {
    fn at(&self, mask: u32) -> usize {
        if C::SMALL { mask as usize } else { self.ranking.of(mask) }
    }

    fn rows(&self, size: usize) -> Vec<C> {
        vec![C::NOTHING; if C::SMALL { 1 << self.m } else { count(self.m, size) }]
    }

    fn fill(shape: &TreeShape, m: usize, hang: Hang<'_, C>) -> Self {
        let ranking = Ranking::new(m);
        let mut table = Self { m, ranking, rooted: Vec::new(), hung: Vec::new(), folds: Vec::new() };
        for (id, children) in shape.children.iter().enumerate() {
            let folds = table.fold(shape, children);
            let size = shape.size[id];
            let mut rooted = table.rows(size);
            for mask in subsets(m, size) {
                let at = table.at(mask);
                match folds.last() {
                    None => rooted[at] = C::single(mask.trailing_zeros() as usize),
                    Some(below) => {
                        bits(mask).for_each(|v| rooted[at].take(&below[table.at(mask ^ 1 << v)], v))
                    }
                }
            }
            let whole = id + 1 == shape.children.len();
            let mut hung = table.rows(if whole { 0 } else { size });
            if !whole {
                subsets(m, size).for_each(|s| hung[table.at(s)] = hang(s, &rooted[table.at(s)]));
            }
            table.rooted.push(rooted);
            table.hung.push(hung);
            table.folds.push(folds);
        }
        table
    }

    fn fold(&self, shape: &TreeShape, children: &[usize]) -> Vec<Vec<C>> {
        let mut folds: Vec<Vec<C>> = Vec::new();
        let mut size = 0;
        for (k, child) in children.iter().enumerate() {
            let next = &self.hung[*child];
            let Some(before) = folds.last() else {
                folds.push(next.clone());
                size = shape.size[*child];
                continue;
            };
            // Two subtrees of one shape may change places: the first takes the set's lowest vertex.
            let twins = k == 1 && children[0] == *child;
            let fold = self.split(before, next, (size, shape.size[*child]), twins);
            folds.push(fold);
            size += shape.size[*child];
        }
        folds
    }

    fn split(&self, before: &[C], next: &[C], (size, more): (usize, usize), twins: bool) -> Vec<C> {
        let total = size + more;
        let mut fold = self.rows(total);
        let some = |rows: &[C], k: usize| -> Vec<u32> {
            subsets(self.m, k).filter(|s| !rows[self.at(*s)].is_nothing()).collect()
        };
        let splits: Vec<u32> = subsets(total, size).filter(|s| !twins || s & 1 != 0).collect();
        if C::SMALL {
            let (first, second) = (some(before, size), some(next, more));
            if first.len() * second.len() < splits.len() * count(self.m, total) {
                for a in &first {
                    for b in second.iter().filter(|b| a & **b == 0) {
                        let both = before[self.at(*a)].both(next[self.at(*b)]);
                        let at = self.at(a | b);
                        fold[at] = fold[at].better(both);
                    }
                }
                return fold;
            }
        }
        for mask in subsets(self.m, total) {
            let spread = Spread::new(mask);
            let mut best = C::NOTHING;
            for split in &splits {
                let part = spread.of(*split);
                best = best.better(before[self.at(part)].both(next[self.at(mask ^ part)]));
            }
            fold[self.at(mask)] = best;
        }
        fold
    }
}

/// Puts the bits of a number at the places of a set's members.
struct Spread {
    low: [u16; 256],
    high: [u16; 256],
}

impl Spread {
    fn new(mask: u32) -> Self {
        let mut at = [0_u16; MOST_FREE];
        let mut n = 0;
        for v in bits(mask) {
            at[n] = 1 << v;
            n += 1;
        }
        let mut spread = Self { low: [0; 256], high: [0; 256] };
        for i in 1..1_usize << n.min(8) {
            spread.low[i] = spread.low[i & (i - 1)] | at[i.trailing_zeros() as usize];
        }
        for i in 1..1_usize << n.saturating_sub(8) {
            spread.high[i] = spread.high[i & (i - 1)] | at[8 + i.trailing_zeros() as usize];
        }
        spread
    }

    fn of(&self, split: u32) -> u32 {
        u32::from(self.low[(split & 0xff) as usize] | self.high[(split >> 8 & 0xff) as usize])
    }
}

fn count(m: usize, k: usize) -> usize {
    (0..k).fold(1, |c, i| c * (m - i.min(m)) / (i + 1))
}

/// For each set of `n` vertices, in the order of [`subsets`], whether the tree fits on links from this adjacency.
pub(super) fn feasible(shape: &TreeShape, adjacent: &[u32]) -> Vec<bool> {
    let hang = |mask: u32, rooted: &u16| {
        let near = bits(u32::from(*rooted)).fold(0, |set, u| set | adjacent[u]) & !mask;
        (near & 0xffff) as u16
    };
    let (m, n) = (adjacent.len(), shape.of_rank.len());
    let table = TreeTable::<u16>::fill(shape, m, &hang);
    let Some(rows) = table.rooted.last() else { return Vec::new() };
    subsets(m, n).map(|mask| rows[mask as usize] != 0).collect()
}

/// Sums of the best matches.
pub(super) fn sums<T: Number>(shape: &TreeShape, weights: &[Lanes<T>]) -> TreeTable<Lanes<T>> {
    let hang = |mask: u32, rooted: &Lanes<T>| {
        let mut row = [T::NONE; MOST_FREE];
        for u in bits(mask) {
            for i in 0..MOST_FREE {
                row[i] = row[i].most(rooted[u].plus(weights[u][i]));
            }
        }
        row
    };
    TreeTable::fill(shape, weights.len(), &hang)
}

impl<T: Number> TreeTable<Lanes<T>> {
    /// The largest sum for each set, in the order of [`subsets`].
    pub(super) fn values(&self) -> Vec<T> {
        let best = |row: &Lanes<T>| row.iter().copied().fold(T::NONE, T::most);
        self.rooted.last().map(|rows| rows.iter().map(best).collect()).unwrap_or_default()
    }

    /// A match of the largest sum on this set: the vertex of each rank.
    pub(super) fn order(&self, shape: &TreeShape, weights: &[Lanes<T>], mask: u32) -> Vec<usize> {
        let mut order = vec![0; shape.of_rank.len()];
        let top = shape.of_rank[0];
        let row = &self.rooted[top][self.at(mask)];
        let root = bits(mask).reduce(|best, v| if row[v] > row[best] { v } else { best });
        if let Some(root) = root {
            self.place((shape, weights), 0, mask, root, &mut order);
        }
        order
    }

    fn place(&self, of: (&TreeShape, &[Lanes<T>]), rank: usize, mask: u32, v: usize, order: &mut [usize]) {
        order[rank] = v;
        let (shape, weights) = of;
        let mut left = mask ^ 1 << v;
        let id = shape.of_rank[rank];
        for k in (0..shape.below[rank].len()).rev() {
            let child = shape.children[id][k];
            let part = if k == 0 { left } else { self.last_part((id, k), child, left, v, shape.size[child]) };
            left ^= part;
            let rows = &self.rooted[child][self.at(part)];
            let worth = |u: usize| rows[u].plus(weights[u][v]);
            let root = bits(part).reduce(|best, u| if worth(u) > worth(best) { u } else { best });
            if let Some(root) = root {
                self.place(of, shape.below[rank][k], part, root, order);
            }
        }
    }

    /// The part of `mask` that a shape's `k`th child takes in a best split.
    fn last_part(&self, (id, k): (usize, usize), child: usize, mask: u32, v: usize, size: usize) -> u32 {
        let spread = Spread::new(mask);
        let before = &self.folds[id][k - 1];
        let worth = |part: u32| before[self.at(mask ^ part)][v].plus(self.hung[child][self.at(part)][v]);
        subsets(mask.count_ones() as usize, size)
            .map(|s| spread.of(s))
            .reduce(|best, part| if worth(part) > worth(best) { part } else { best })
            .unwrap_or(mask)
    }
}
