//! Prices of vertices, so that the sum of a part reflects which vertices it leaves to the rest of the match.
//!
//! # Problem
//! The bound on what the rest of a match lacks ignores which vertices are taken already. Each part looks as if it had the
//! best linked vertices for itself, but a match of nearly all vertices must take the badly linked ones as well.
//!
//! # Approach
//! Each vertex gets a price, higher if it is better linked, and a part also lacks the prices of its vertices. A match pays
//! at most the `n` highest prices together, so the limit rises by that sum; when a match is complete, its prices are taken
//! off again. Any prices give the right answer. Good ones are near the dual values of taking each vertex once. They come
//! from stretches of three ranks: each vertex has a share of what a stretch lacks, as large as all stretches allow, and
//! its price is the difference between the largest share and its own.

use super::hung::Hung;
use crate::search::number::Number;
use crate::search::set_positions::POSITIONS;
use crate::search::subsets::{bits, count, subsets};

/// Prices of all vertices.
pub(super) struct Prices<T: Number> {
    of: T::Row,
    most: T,
}

/// Parts of a unit that shares are counted in.
const FINE: u32 = 64;

/// Times that shares are raised.
const ROUNDS: usize = 3;

/// With more vertices to spare there are no prices: a match need not take the badly linked ones.
const MOST_SPARE: usize = 2;

impl<T: Number> Prices<T> {
    /// No vertex costs anything.
    pub(super) fn none() -> Self {
        Self { of: T::ZERO.each(), most: T::ZERO }
    }

    /// For matches of `n` of `m` vertices within a limit, from all stretches of three ranks.
    pub(super) fn new((m, n): (usize, usize), limit: Option<T>, hung: &Hung<T>) -> Self {
        let limit = limit.and_then(Number::units).filter(|limit| *limit > 0 && m <= n + MOST_SPARE);
        let Some(limit) = limit else { return Self::none() };
        let Some(shares) = shares(m, &stretches(m, hung)) else { return Self::none() };
        let largest = shares.iter().max().copied().unwrap_or(0);
        // Where one may stay free, the limit is raised by more than a match pays that avoids a dear one.
        let fine = if m == n { FINE } else { FINE * 3 / 2 };
        let mut prices: Vec<u32> = shares.iter().map(|share| (largest - share + fine / 2) / fine).collect();
        let of = T::row(std::array::from_fn(|v| T::of(prices.get(v).copied().unwrap_or(0))));
        prices.sort_unstable();
        let most = prices.iter().rev().take(n).sum::<u32>();
        if limit + most > T::MOST { Self::none() } else { Self { of, most: T::of(most) } }
    }

    /// Returns the price of a vertex.
    pub(super) fn of(&self, v: usize) -> T {
        T::lane(&self.of, v)
    }

    /// Returns the price of a set.
    pub(super) fn of_set(&self, set: u32) -> T {
        bits(set).fold(T::ZERO, |sum, v| sum.plus(self.of(v)))
    }

    /// Returns the price of a set and each vertex.
    pub(super) fn with_each(&self, set: u32) -> T::Row {
        T::rows_plus(self.of, self.of_set(set).each())
    }

    /// Returns the most that a match pays.
    pub(super) fn most(&self) -> T {
        self.most
    }
}

/// The vertices of each stretch of three, and what it lacks at least, in parts of a unit.
fn stretches<T: Number>(m: usize, hung: &Hung<T>) -> Vec<([usize; 3], u32)> {
    let mut least = vec![T::NONE; count(m, 3)];
    for part in hung.below.iter().flatten() {
        let least = &mut least[POSITIONS.of(part.set)];
        if part.best.ahead(*least) {
            *least = part.best;
        }
    }
    let members = |set: u32| {
        let mut each = bits(set);
        std::array::from_fn(|_| each.next().unwrap_or(0))
    };
    let found = subsets(m, 3).zip(least);
    found.filter_map(|(set, lacks)| Some((members(set), lacks.units()?.saturating_mul(FINE)))).collect()
}

/// Each vertex's share, such that those of a stretch together are no more than what it lacks; `None` where a vertex is
/// in no stretch.
fn shares(m: usize, stretches: &[([usize; 3], u32)]) -> Option<Vec<u32>> {
    let mut shares = vec![u32::MAX; m];
    for (members, lacks) in stretches {
        members.iter().for_each(|v| shares[*v] = shares[*v].min(lacks / 3));
    }
    if shares.contains(&u32::MAX) {
        return None;
    }
    for _ in 0..ROUNDS {
        let mut order: Vec<usize> = (0..m).collect();
        order.sort_by_key(|v| std::cmp::Reverse(shares[*v]));
        for v in order {
            let with = stretches.iter().filter(|(members, _)| members.contains(&v));
            let room = |(members, lacks): &([usize; 3], u32)| {
                lacks - members.iter().map(|u| shares[*u]).sum::<u32>()
            };
            // Half, so that those after it get a part.
            shares[v] += with.map(room).min().unwrap_or(0) / 2;
        }
    }
    Some(shares)
}
