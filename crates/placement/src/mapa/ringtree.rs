//! NCCL's ring and tree over the same ranks: subtrees are stretches of the ring.
//!
//! # Problem
//! Onto which GPU each rank goes, so that ring and tree edges together lie on the best links, for every set at once.
//!
//! # Structure
//! Ranks count through the binary tree in order, so the ranks below a rank are a stretch of the ring: the left child's
//! stretch, the rank itself, the right child's. Between a stretch and the rest of the pattern there are three edges:
//! from its root (tree) and from its near end (ring) to the rank above it, and from its far end to the stretch's
//! other neighbour. A stretch of one rank has one edge where others have two. Rank 0 is above the whole tree, and the
//! neighbour of both its ends. A stretch's mirror image is the same graph, so left and right need one table.
//!
//! # Algorithm
//! `rows[set][far][above]`: what the stretch on exactly `set` lacks with `far` at its far end, hung below `above`. A
//! stretch is composed of its root and two smaller ones. Halves are listed best first, and only pairs that lack no
//! more than a match that is known (`climb`) are put together. The last step puts both sides of the top and rank 0
//! together; sets are left that have been found already.
//!
//! # Worst case
//! 16 free GPUs, nothing to be left out: 80 080 roots with the rest of their set, times 20 halvings, times 3 far ends,
//! and 7.2 million pairs of sides for n = 13, of one row each. Tables: 11 440 sets of 7 rows, 1.3 MiB in bytes, 5 MiB
//! in `i32`.

mod build;
mod halves;

use build::Build;
use halves::{Halves, best, over_parts};

use super::climb;
use super::number::{Number, Weights};
use super::pattern::Edge;
use super::ranks::RANKS;
use super::space::{MOST_FREE, bits, subsets};

/// A stretch of `size` ranks: its root is the largest power of two in it, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    size: usize,
}

impl Stretch {
    /// The stretches left and right of its root; the left one exists where `size` is not 1.
    fn halves(self) -> (Stretch, Stretch) {
        let root = 1 << self.size.ilog2();
        (Stretch { size: root - 1 }, Stretch { size: self.size - root })
    }
}

/// The stretches on both sides of the top, which is rank 2^k.
fn sides(n: usize) -> (Stretch, Stretch) {
    Stretch { size: n - 1 }.halves()
}

/// What a stretch lacks on some sets.
struct Table<T: Number> {
    size: usize,
    sets: Vec<u32>,
    /// `size` rows per set, by far end, ascending; lanes are the vertex above.
    rows: Vec<T::Row>,
    /// The best of the rows of each set.
    best: Vec<T::Row>,
}

impl<T: Number> Table<T> {
    fn new(size: usize, sets: Vec<u32>, rows: Vec<T::Row>) -> Self {
        let each =
            rows.chunks(size.max(1)).map(|rows| rows.iter().copied().fold(T::NONE.each(), T::rows_most));
        let best = each.collect();
        Self { size, sets, rows, best }
    }
}

/// A side of the top: lanes are rank 0.
struct Side<T: Number> {
    best: T,
    set: u32,
    row: T::Row,
}

/// A search over one space.
pub(super) struct RingTree<'a, T: Number> {
    weights: &'a Weights<T>,
    n: usize,
    m: usize,
    /// Matches that lack more are of no interest.
    limit: T,
    /// Any match within the limit will do.
    any: bool,
    /// What rank 0's three edges lack at least, where neither side's least has them.
    zero: T,
    /// What the top's five edges lack at least.
    top: T,
    /// Sets that have a match at the limit.
    found: Found,
    /// Left side, right side and top of the first of them.
    example: Option<(u32, u32, u32)>,
}

/// Sets that are found, and for each set of one less the vertices that would make a new one.
struct Found {
    sets: Vec<u32>,
    open: Vec<u16>,
    most: usize,
}

impl Found {
    fn new(m: usize, n: usize) -> Self {
        Self { sets: Vec::new(), open: vec![u16::MAX; 1 << m], most: subsets(m, n).count() }
    }

    fn clear(&mut self) {
        if !self.sets.is_empty() {
            self.sets.clear();
            self.open.fill(u16::MAX);
        }
    }

    fn add(&mut self, set: u32) {
        self.sets.push(set);
        for v in bits(set) {
            self.open[(set ^ 1 << v) as usize] &= !(1 << v);
        }
    }

    fn is_full(&self) -> bool {
        self.sets.len() == self.most
    }
}

impl<'a, T: Number> RingTree<'a, T> {
    fn new(weights: &'a Weights<T>, n: usize, limit: T) -> Self {
        let m = weights.rows.len();
        let least = |edges: usize| {
            let of = |lanes: &[T; MOST_FREE]| {
                let mut lacks: Vec<u32> = lanes.iter().filter_map(|l| l.units()).collect();
                lacks.sort_unstable();
                lacks.iter().take(edges).sum::<u32>()
            };
            weights.of.iter().map(of).min().map_or(T::ZERO, T::of)
        };
        let zero = if sides(n).1.size > 3 { least(3) } else { T::ZERO };
        let top = least(5);
        Self { weights, n, m, limit, any: false, zero, top, found: Found::new(m, n), example: None }
    }

    /// The sets of `n` vertices, 4 at least, whose best match lacks least, and what that is; only matches that lack
    /// at most `limit` count.
    pub(super) fn best(weights: &'a Weights<T>, n: usize, limit: T) -> (T, Vec<u32>) {
        let mut search = Self::new(weights, n, limit);
        search.run();
        (search.limit, search.found.sets)
    }

    /// Whether a match lacks at most `limit`.
    pub(super) fn fits(weights: &'a Weights<T>, n: usize, limit: T) -> bool {
        let mut search = Self::new(weights, n, limit);
        search.any = true;
        search.run();
        search.example.is_some()
    }

    /// The best match of all vertices: the vertex of each rank. `None` where none lacks at most `limit`.
    pub(super) fn order(weights: &'a Weights<T>, limit: T) -> Option<Vec<usize>> {
        let n = weights.rows.len();
        let mut search = Self::new(weights, n, limit);
        search.run();
        let (left, right, top) = search.example?;
        let zero = ((1_u32 << n) - 1) & !(left | right | top);
        let (top, zero) = (top.trailing_zeros() as usize, zero.trailing_zeros() as usize);
        let (middle, build) = (1 + left.count_ones() as usize, Build { weights });
        let mut order = vec![0; n];
        (order[0], order[middle]) = (zero, top);
        build.place(left, (top, zero), &mut |at, v| order[middle - at] = v);
        build.place(right, (top, zero), &mut |at, v| order[middle + at] = v);
        Some(order)
    }

    fn run(&mut self) {
        let (left, right) = sides(self.n);
        let small: Vec<Table<T>> = (0..=3).map(|size| self.small(size)).collect();
        let small_side = |side: Stretch| (side.size <= 3).then(|| &small[side.size]);
        // Without a triangle there is no stretch of three.
        if self.n > 4 && small[3].best.iter().all(|row| T::best_lane(*row).units().is_none()) {
            return;
        }
        let halves = |side: Stretch| {
            let (a, b) = side.halves();
            Halves::new(self, &small[a.size], &small[b.size])
        };
        if left.size <= 3 {
            let bare = vec![T::ZERO; 1 << self.m];
            return self.join((&small[left.size], &small[right.size]), (&bare, &bare));
        }
        let large = |side: Stretch| (side.size > 3).then(|| halves(side));
        let first = large(left);
        let second = if left == right { None } else { large(right) };
        let least = |halves: &Option<Halves<T>>, side: Stretch| match halves {
            Some(halves) => halves.least.clone(),
            None => self.least_of_small(&small[side.size]),
        };
        let (least_left, least_right) =
            (least(&first, left), least(if left == right { &first } else { &second }, right));
        let all = (1_usize << self.m) - 1;
        let both = subsets(self.m, left.size)
            .map(|set| least_left[set as usize].plus(least_right[all & !(set as usize)]));
        let Some(floor) = both.fold(T::NONE, best).plus(self.zero).units() else { return };
        let most = self.limit;
        let mut step = if self.any { T::MOST } else { 0 };
        // Little is left to search while the limit is close to what must be lacking, and mostly a match is there.
        loop {
            self.limit = best(most, T::of((floor + step).min(T::MOST)));
            let inner = |h: &'_ Option<Halves<T>>| h.as_ref().map(|h| h.least_inner.clone());
            let (inner_left, inner_right) =
                (inner(&first), inner(if left == right { &first } else { &second }));
            let on_left = first.as_ref().map(|h| self.compose(h, (&least_right, inner_right.as_deref())));
            let on_right = second.as_ref().map(|h| self.compose(h, (&least_left, inner_left.as_deref())));
            let left_table = small_side(left).or(on_left.as_ref());
            let right_table =
                if left == right { left_table } else { small_side(right).or(on_right.as_ref()) };
            if let Some((left, right)) = left_table.zip(right_table) {
                self.join((left, right), (&least_left, &least_right));
            }
            if !self.found.sets.is_empty() || most.units().is_none_or(|m| m <= floor + step) {
                return;
            }
            step += 1 + floor / 8;
        }
    }

    /// Stretches of up to three ranks on every set.
    fn small(&self, size: usize) -> Table<T> {
        let (rows, of) = (&self.weights.rows, &self.weights.of);
        let sets: Vec<u32> = subsets(self.m, size).collect();
        let mut all = Vec::with_capacity(sets.len() * size);
        for set in &sets {
            let members: Vec<usize> = bits(*set).collect();
            for far in &members {
                let others = || members.iter().filter(|v| *v != far);
                let row = match size {
                    1 => rows[*far],
                    // The far end is the root.
                    2 => others().fold(T::NONE.each(), |best, near| {
                        let row = T::rows_plus(rows[*near], rows[*far]);
                        T::rows_most(best, T::rows_plus(row, of[*near][*far].each()))
                    }),
                    _ => others().fold(T::NONE.each(), |best, root| {
                        let near = others().find(|v| *v != root).unwrap_or(root);
                        let row = T::rows_plus(rows[*near], rows[*root]);
                        T::rows_most(best, T::rows_plus(row, of[*near][*root].plus(of[*root][*far]).each()))
                    }),
                };
                all.push(T::rows_without(row, *set));
            }
        }
        Table::new(size, sets, all)
    }

    /// A stretch with its root below `above`: lanes are the far end's other neighbour.
    fn closed(&self, table: &Table<T>, at: usize, above: usize) -> T::Row {
        let set = table.sets[at];
        let mut row = T::NONE.each();
        for (k, far) in bits(set).enumerate() {
            let lacks = T::lane(&table.rows[at * table.size + k], above);
            row = T::rows_most(row, T::rows_plus(self.weights.rows[far], lacks.each()));
        }
        row
    }

    /// What a small side lacks at least together with rank 0's edges to it and to the top.
    fn least_of_small(&self, table: &Table<T>) -> Vec<T> {
        let of = |(at, set): (usize, &u32)| {
            let tops = (0..self.m).filter(|top| set >> top & 1 == 0);
            let with = tops
                .map(|top| T::best_lane(T::rows_plus(self.closed(table, at, top), self.weights.rows[top])));
            (*set, if table.size == 0 { T::ZERO } else { with.fold(T::NONE, best) })
        };
        over_parts(self.m, table.sets.iter().enumerate().map(of))
    }

    /// The stretch of these halves on every set on which it can be part of a match within the limit.
    fn compose(&self, halves: &Halves<T>, (other, inner): (&[T], Option<&[T]>)) -> Table<T> {
        let part = halves.sizes.0 + halves.sizes.1;
        let (size, all) = (part + 1, (1_u32 << self.m) - 1);
        let mut slot = vec![0_u16; 1 << self.m];
        let (mut sets, mut rows): (Vec<u32>, Vec<T::Row>) = (Vec::new(), Vec::new());
        for ((set, lanes), both_inner) in subsets(self.m, part).zip(&halves.both).zip(&halves.both_inner) {
            for root in bits(all ^ set) {
                let whole = set | 1 << root;
                let rest = other[(all ^ whole) as usize].plus(self.zero);
                if self.limit.ahead(lanes[root].plus(rest)) {
                    continue;
                }
                let without_top =
                    |inner: &[T]| both_inner[root].plus(inner[(all ^ whole) as usize]).plus(self.top);
                if inner.is_some_and(|inner| self.limit.ahead(without_top(inner))) {
                    continue;
                }
                let at = &mut slot[whole as usize];
                if *at == 0 {
                    sets.push(whole);
                    rows.resize(rows.len() + size, T::NONE.each());
                    *at = u16::try_from(sets.len()).unwrap_or(u16::MAX);
                }
                let base = (usize::from(*at) - 1) * size;
                self.split(halves, (set, root, rest), &mut rows[base..base + size]);
            }
        }
        // Lanes of a set's own members are no vertex above it.
        let each = rows.chunks_mut(size).zip(&sets);
        each.for_each(|(rows, set)| rows.iter_mut().for_each(|row| *row = T::rows_without(*row, *set)));
        Table::new(size, sets, rows)
    }

    /// Puts the halves on the parts of a set below this root.
    fn split(&self, halves: &Halves<T>, (set, root, rest): (u32, usize, T), rows: &mut [T::Row]) {
        let left = &halves.left[root];
        if halves.sizes.1 == 0 {
            let at = ((set | 1 << root) & ((1 << root) - 1)).count_ones() as usize;
            rows[at] = T::rows_most(rows[at], left[RANKS.of(set)]);
            return;
        }
        let mut place = [0; MOST_FREE];
        bits(set | 1 << root).enumerate().for_each(|(i, v)| place[v] = i);
        let limit = self.limit;
        RANKS.parts(set, halves.sizes.0, false, (), |(), a, b| {
            let least = halves.best_left[a][root].plus(halves.best_right[b][root]);
            if limit.ahead(least.plus(rest)) {
                return;
            }
            let right = &halves.right[b];
            for (end, lacks) in right.ends[..halves.sizes.1].iter().zip(right.lacks[root]) {
                let at = place[*end];
                rows[at] = T::rows_most(rows[at], T::rows_plus(left[a], lacks.each()));
            }
        });
    }

    /// A side on every set with the top at `top`, as far as the other side can go with it.
    fn side(&self, table: &Table<T>, (top, zero): (usize, T), other: &[T]) -> Vec<Side<T>> {
        if table.size == 0 {
            return vec![Side { best: T::ZERO, set: 0, row: T::ZERO.each() }];
        }
        let all = (1_usize << self.m) - 1;
        let sets = table.sets.iter().enumerate().filter(|(_, set)| **set & 1 << top == 0);
        let side = |(at, set): (usize, &u32)| {
            let rest = other[all & !(*set as usize | 1 << top)];
            if self.limit.ahead(T::lane(&table.best[at], top).plus(rest).plus(zero)) {
                return None;
            }
            let row = T::rows_without(self.closed(table, at, top), *set);
            let best = T::best_lane(row);
            (!self.limit.ahead(best.plus(rest))).then_some(Side { best, set: *set, row })
        };
        sets.filter_map(side).collect()
    }

    /// Both sides, the top and rank 0.
    fn join(&mut self, (left, right): (&Table<T>, &Table<T>), (least_left, least_right): (&[T], &[T])) {
        let twins = left.size == right.size;
        let (for_left, for_right) = (least_right, least_left);
        let all = (1_u32 << self.m) - 1;
        for top in 0..self.m {
            let edge = self.weights.rows[top];
            let first = self.side(left, (top, self.zero), for_left);
            let mut second = self.side(right, (top, self.zero), for_right);
            let mut at = vec![0_u16; subsets(self.m, right.size).count()];
            for (i, side) in second.iter_mut().enumerate() {
                side.row = T::rows_plus(side.row, edge);
                side.best = T::best_lane(side.row);
                at[RANKS.of(side.set)] = u16::try_from(i + 1).unwrap_or(0);
            }
            for a in &first {
                let rest = all & !(a.set | 1 << top);
                RANKS.parts(rest, right.size, false, (), |(), b, _| {
                    let Some(b) = usize::from(at[b]).checked_sub(1).map(|b| &second[b]) else { return };
                    if !(self.limit.ahead(a.best.plus(b.best)) || twins && a.set > b.set) {
                        self.offer(a, b, 1 << top);
                    }
                });
                if self.found.is_full() && self.limit.units() == Some(0) || self.any && self.example.is_some()
                {
                    return;
                }
            }
        }
    }

    fn offer(&mut self, a: &Side<T>, b: &Side<T>, top: u32) {
        let set = a.set | b.set | top;
        let open = self.found.open[set as usize];
        // Nothing beats a match that lacks nothing.
        if open == 0 && self.limit.units() == Some(0) {
            return;
        }
        let row = T::rows_plus(a.row, b.row);
        if T::reaching(row, self.limit) == 0 {
            return;
        }
        let best = T::best_lane(row);
        if best.ahead(self.limit) {
            self.limit = best;
            self.found.clear();
        }
        let zero = u32::from(T::reaching(row, self.limit) & self.found.open[set as usize]);
        if self.found.sets.is_empty() && zero != 0 {
            self.example = Some((a.set, b.set, top));
        }
        for v in bits(zero) {
            self.found.add(set | 1 << v);
        }
    }
}

/// What a good match lacks; the most that there is where finding one takes as long as the search.
pub(super) fn limit<T: Number>(weights: &Weights<T>, edges: &[Edge], n: usize) -> T {
    let few = weights.of.len() <= 8;
    let limit = if few { T::NONE } else { climb::limit(weights, edges, n) };
    if limit.units().is_some() { limit } else { T::of(T::MOST) }
}
