//! NCCL's ring and tree over the same ranks: subtrees are stretches of the ring.
//!
//! # Problem
//! Onto which GPU each rank goes, so that ring and tree edges together lie on the best links, for every set at once.
//!
//! # Structure
//! SetPositions count through the binary tree in order, so the ranks below a rank are a stretch of the ring: the left child's
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
mod found_sets;
mod hung;
mod join;
mod near;
mod priced;
mod prices;
mod search;
mod sides;
mod stretch;

use topology::Edge;

use self::search::{StretchSearch, Wanted, better};
use super::hill_climb;
use super::number::{Number, Weights};

/// The sets of `n` vertices, 4 at least, whose best match lacks least, and what that is.
pub(super) fn best<T: Number>(weights: &Weights<T>, n: usize, edges: &[Edge]) -> (T, Vec<u32>) {
    let m = weights.rows.len();
    if n == m {
        let lacks = one(weights, edges, None).map_or(T::NONE, |(lacks, _)| lacks);
        return (lacks, vec![(1 << m) - 1]);
    }
    let good = hill_climb::good(weights, edges, n, None).map_or(T::of(T::MOST), |(lacks, _)| lacks);
    let search = StretchSearch::new(weights, n, Some(good), Wanted::Sets).run();
    (search.example.map_or(T::NONE, |example| example.lacks), search.found.sets)
}

/// Every set of `n` vertices on which a match lacks nothing.
pub(super) fn perfect<T: Number>(weights: &Weights<T>, n: usize) -> Vec<u32> {
    StretchSearch::new(weights, n, Some(T::ZERO), Wanted::Sets).run().found.sets
}

/// A match of `n` vertices that lacks at most `limit`: what it lacks and the vertex of each rank.
pub(super) fn within<T: Number>(
    weights: &Weights<T>,
    edges: &[Edge],
    n: usize,
    limit: T,
) -> Option<(T, Vec<usize>)> {
    let good = hill_climb::good(weights, edges, n, Some(limit));
    good.filter(|(lacks, _)| !limit.ahead(*lacks)).or_else(|| {
        let example = StretchSearch::new(weights, n, Some(limit), Wanted::Any).run().example?;
        Some((example.lacks, example.ranks(weights, n)))
    })
}

/// The sets that have a match at the limit, if none has one below it.
pub(super) fn sets_at<T: Number>(weights: &Weights<T>, n: usize, limit: T) -> Option<Vec<u32>> {
    let search = StretchSearch::new(weights, n, Some(limit), Wanted::SetsAt).run();
    search.example.is_none_or(|example| !example.lacks.ahead(limit)).then_some(search.found.sets)
}

/// The best match of all vertices: what it lacks and the vertex of each rank.
///
/// `None` where there is none. `known`: what it lacks.
pub(super) fn one<T: Number>(
    weights: &Weights<T>,
    edges: &[Edge],
    known: Option<T>,
) -> Option<(T, Vec<usize>)> {
    let n = weights.rows.len();
    let good = hill_climb::good(weights, edges, n, known);
    let known_best = |lacks: T| known.is_some_and(|known| !known.ahead(lacks));
    let limit = match &good {
        Some((lacks, _)) if known_best(*lacks) => return good,
        Some((lacks, _)) => known.or(better(*lacks)),
        None => known.or(Some(T::of(T::MOST))),
    };
    let wanted = if known.is_some() { Wanted::Any } else { Wanted::One };
    match StretchSearch::new(weights, n, limit, wanted).run().example {
        Some(example) => Some((example.lacks, example.ranks(weights, n))),
        None => good,
    }
}

#[cfg(test)]
mod tests;
