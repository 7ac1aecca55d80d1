//! NCCL's ring and tree over the same ranks: subtrees are stretches of the ring.
//!
//! # Problem
//! Which rank goes on which GPU, so that ring and tree edges together lie on the best links, for every set at once.
//!
//! # Structure
//! The binary tree numbers ranks in order, so the ranks of a subtree are a stretch of the ring: the left child's stretch,
//! the root, the right child's stretch. Three edges join a stretch to the rest of the pattern: its root (tree) and its
//! near end (ring) to the rank above it, and its far end to the stretch's other neighbour. In a stretch of one rank, the
//! first two are one edge. Rank 0 is above the whole tree and is the neighbour of both its ends. The mirror image of a
//! stretch is the same graph, so left and right share one table.
//!
//! # Approach
//! - `hill_climb` finds a good match first. Only matches that lack no more are searched for; if one set is left, only
//!   those that lack less.
//! - `hung` lists the stretches of up to three ranks below each vertex.
//! - `prices` gives each vertex a price, so that parts which take the well linked vertices lack more.
//! - Each vertex is the top once, that is rank 2^k. `near` and `compose` build the stretches of up to seven ranks on both
//!   sides of it from two smaller ones each, as long as the least that the rest lacks allows.
//! - `join` puts two sides together. Of two sides of seven, the cheaper one lacks at most half. So only such sides are
//!   listed, and the other side is looked up on the vertices that are left.
//!
//! Lists are sorted, best first, so a loop ends at the first entry that lacks too much. The lanes of a row are the
//! vertices for rank 0.
//!
//! # Worst case
//! 16 free GPUs. Without bounds: 16 tops, 15 roots below each, 455 near halves, 120 far ones, of one row each. Bounds
//! leave about ten thousand pairs per top (`docs/figures/mapa.md`). Memory: 7 280 stretches of three, 0.3 MiB; 11 440
//! sides.
//!
//! # Source
//! Ours. The pattern is MAPA's (Fig. 8), its tree NCCL's.

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

use mapa::Edge;

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

/// The sets that have a match which lacks exactly `limit`; `None` if some match lacks less.
pub(super) fn sets_at<T: Number>(weights: &Weights<T>, n: usize, limit: T) -> Option<Vec<u32>> {
    let search = StretchSearch::new(weights, n, Some(limit), Wanted::SetsAt).run();
    search.example.is_none_or(|example| !example.lacks.ahead(limit)).then_some(search.found.sets)
}

/// The best match of all vertices: what it lacks and the vertex of each rank; `None` if there is none. `known`: what the
/// best match lacks, if a search for the set has found it.
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
