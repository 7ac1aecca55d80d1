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
//! A good match is known before (`climb`); only what lacks no more is looked for, or, where one set is left, less.
//! `hung`: stretches of up to three ranks below each vertex. Vertices have prices, so that parts which take the well
//! linked ones lack more (`prices`). For each vertex as the top, which is rank 2^k, stretches of up to seven ranks on
//! both sides are put together from two of those (`near`, `compose`), as far as the least that the rest lacks allows,
//! and then the sides (`join`). Of two sides of seven the cheaper one lacks at most half, so only
//! such are listed, and the other one is looked up on the vertices that are left. In a list with the best first a loop
//! ends at the first that lacks too much; lanes of a row are the vertices for rank 0.
//!
//! # Worst case
//! 16 free GPUs, if no bound held: 16 tops, 15 roots below each, 455 near halves, 120 far ones, of one row each. Bounds
//! leave some ten thousand pairs per top (`docs/figures/mapa.md`). Memory: 7 280 stretches of three, 0.3 MiB; 11 440
//! sides.

mod build;
mod compose;
mod found;
mod hung;
mod join;
mod near;
mod prices;
mod sides;

use build::Build;
use found::Found;
use hung::Hung;
use near::NearHalves;
use prices::Prices;
use sides::{Ends, Sides};

use super::climb;
use super::number::{Number, Weights};
use super::space::bits;
use topology::Edge;

/// A stretch of `size` ranks: its root is the largest power of two in it, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    size: usize,
}

impl Stretch {
    /// Larger ones are put together.
    const MOST_HUNG: usize = 3;

    /// The stretches left and right of its root; the left one exists where `size` is not 1.
    fn halves(self) -> (Stretch, Stretch) {
        let root = 1 << self.size.ilog2();
        (Stretch { size: root - 1 }, Stretch { size: self.size - root })
    }

    fn is_composed(self) -> bool {
        self.size > Self::MOST_HUNG
    }
}

/// What is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// Every set that has a best match.
    Sets,
    /// Every set that has a match at the limit, unless one lacks less.
    SetsAt,
    /// One best match.
    One,
    /// Any match within the limit.
    Any,
}

/// Left side, right side and top of a match.
#[derive(Clone, Copy)]
struct Sections {
    left: u32,
    right: u32,
    top: usize,
}

impl Sections {
    fn set(self) -> u32 {
        self.left | self.right | 1 << self.top
    }
}

/// A match.
#[derive(Clone, Copy)]
struct Match<T: Number> {
    lacks: T,
    sections: Sections,
    /// The vertex of rank 0.
    zero: usize,
}

impl<T: Number> Match<T> {
    /// The vertex of each of `n` ranks.
    fn ranks(self, weights: &Weights<T>, n: usize) -> Vec<usize> {
        let Self { sections: Sections { left, right, top }, zero, .. } = self;
        let middle = 1 + left.count_ones() as usize;
        let (mut order, build) = (vec![0; n], Build { weights });
        (order[0], order[middle]) = (zero, top);
        build.place(left, (top, zero), &mut |at, v| order[middle - at] = v);
        build.place(right, (top, zero), &mut |at, v| order[middle + at] = v);
        order
    }
}

/// A search over one space.
pub(super) struct RingTree<'a, T: Number> {
    weights: &'a Weights<T>,
    m: usize,
    n: usize,
    /// Everything below counts them in, but `limit` and what is found.
    prices: Prices<T>,
    wanted: Wanted,
    /// Left and right of the top; the right one is not larger.
    sides: (Stretch, Stretch),
    /// Stretches of none to three ranks, as far as they are needed.
    hung: [Option<Hung<T>>; 4],
    /// Matches that lack more are of no interest; `None`: nothing is better than what was found.
    limit: Option<T>,
    /// Sets that have a match at the limit.
    found: Found,
    /// The best match.
    example: Option<Match<T>>,
}

impl<'a, T: Number> RingTree<'a, T> {
    fn new(weights: &'a Weights<T>, n: usize, limit: Option<T>, wanted: Wanted) -> Self {
        let m = weights.rows.len();
        let sides = Stretch { size: n - 1 }.halves();
        let (prices, hung) = hung::needed(weights, n, limit, sides);
        Self { weights, m, n, prices, wanted, sides, hung, limit, found: Found::new(m, n), example: None }
    }

    /// The sets of `n` vertices, 4 at least, whose best match lacks least, and what that is.
    pub(super) fn best(weights: &'a Weights<T>, n: usize, edges: &[Edge]) -> (T, Vec<u32>) {
        let m = weights.rows.len();
        if n == m {
            let lacks = Self::one(weights, edges, None).map_or(T::NONE, |(lacks, _)| lacks);
            return (lacks, vec![(1 << m) - 1]);
        }
        let good = climb::good(weights, edges, n, None).map_or(T::of(T::MOST), |(lacks, _)| lacks);
        let search = Self::new(weights, n, Some(good), Wanted::Sets).run();
        (search.example.map_or(T::NONE, |example| example.lacks), search.found.sets)
    }

    /// Every set of `n` vertices on which a match lacks nothing.
    pub(super) fn perfect(weights: &'a Weights<T>, n: usize) -> Vec<u32> {
        Self::new(weights, n, Some(T::ZERO), Wanted::Sets).run().found.sets
    }

    /// A match of `n` vertices that lacks at most `limit`: what it lacks and the vertex of each rank.
    pub(super) fn within(
        weights: &'a Weights<T>,
        edges: &[Edge],
        n: usize,
        limit: T,
    ) -> Option<(T, Vec<usize>)> {
        let good = climb::good(weights, edges, n, Some(limit));
        good.filter(|(lacks, _)| !limit.ahead(*lacks)).or_else(|| {
            let example = Self::new(weights, n, Some(limit), Wanted::Any).run().example?;
            Some((example.lacks, example.ranks(weights, n)))
        })
    }

    /// The sets that have a match at the limit, if none has one below it.
    pub(super) fn sets_at(weights: &'a Weights<T>, n: usize, limit: T) -> Option<Vec<u32>> {
        let search = Self::new(weights, n, Some(limit), Wanted::SetsAt).run();
        search.example.is_none_or(|example| !example.lacks.ahead(limit)).then_some(search.found.sets)
    }

    /// The best match of all vertices: what it lacks and the vertex of each rank.
    ///
    /// `None` where there is none. `known`: what it lacks.
    pub(super) fn one(weights: &'a Weights<T>, edges: &[Edge], known: Option<T>) -> Option<(T, Vec<usize>)> {
        let n = weights.rows.len();
        let good = climb::good(weights, edges, n, known);
        let known_best = |lacks: T| known.is_some_and(|known| !known.ahead(lacks));
        let limit = match &good {
            Some((lacks, _)) if known_best(*lacks) => return good,
            Some((lacks, _)) => known.or(better(*lacks)),
            None => known.or(Some(T::of(T::MOST))),
        };
        let wanted = if known.is_some() { Wanted::Any } else { Wanted::One };
        match Self::new(weights, n, limit, wanted).run().example {
            Some(example) => Some((example.lacks, example.ranks(weights, n))),
            None => good,
        }
    }

    fn run(mut self) -> Self {
        for top in 0..self.m {
            let Some(limit) = self.limit else { break };
            let edge = T::rows_plus(self.weights.rows[top], self.prices.with_each(1 << top));
            let near = self.near_halves(top);
            self.join(&Ends { top, edge, near: &near, limit: limit.plus(self.prices.most()) });
        }
        self
    }

    /// What near halves of sides lack with their root and the edge to this top, where sides are composed.
    fn near_halves(&self, top: usize) -> NearHalves<T> {
        let composed = self.hung[Stretch::MOST_HUNG].as_ref().filter(|_| self.sides.0.is_composed());
        let near = composed.map_or(&[][..], |near| &near.below);
        NearHalves::new(near, top, |root| self.weights.of[root][top].plus(self.prices.of(root)))
    }

    fn sides(&self) -> Sides<'_, T> {
        Sides { hung: &self.hung, m: self.m }
    }

    fn wants_sets(&self) -> bool {
        matches!(self.wanted, Wanted::Sets | Wanted::SetsAt)
    }

    /// Whether nothing can be better than what is found.
    fn only_new_sets(&self) -> bool {
        self.wants_sets() && self.limit.and_then(Number::units) == Some(0)
    }

    /// A match of these sections: lanes are rank 0.
    fn offer(&mut self, row: T::Row, sections: Sections) {
        let Some(limit) = self.limit else { return };
        let set = sections.set();
        if self.only_new_sets() && self.found.open(set) & !vertices(set) == 0 {
            return;
        }
        if T::reaching(row, limit.plus(self.prices.most())) & !vertices(set) == 0 {
            return;
        }
        let row = T::rows_minus(row, self.prices.with_each(set));
        if T::reaching(row, limit) & !vertices(set) == 0 {
            return;
        }
        let row = T::rows_without(row, set);
        let best = T::best_lane(row);
        if best.ahead(limit) {
            self.found.clear();
        }
        // One match is wanted: the limit is already below what the last one lacks.
        if best.ahead(limit) || self.example.is_none() || self.wanted == Wanted::One {
            let zero = T::reaching(row, best).trailing_zeros() as usize;
            self.example = Some(Match { lacks: best, sections, zero });
            self.limit = match self.wanted {
                Wanted::Sets => Some(best),
                Wanted::SetsAt => Some(best).filter(|best| !best.ahead(limit)),
                Wanted::One => better(best),
                Wanted::Any => None,
            };
        }
        if self.wants_sets() {
            let new = u32::from(T::reaching(row, best) & self.found.open(set));
            bits(new).for_each(|zero| self.found.add(set | 1 << zero));
            if self.found.is_full() && best.units() == Some(0) {
                self.limit = None;
            }
        }
    }
}

/// Better than this by one unit.
fn better<T: Number>(lacks: T) -> Option<T> {
    lacks.units().and_then(|units| units.checked_sub(1)).map(T::of)
}

/// A set of vertices as lanes.
fn vertices(set: u32) -> u16 {
    (set & 0xffff) as u16
}

#[cfg(test)]
mod tests;
