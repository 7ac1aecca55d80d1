//! Patterns that one table over subsets solves for every set at once: rings, chains, trees and ring+tree.

use super::budget::Budget;
use super::by_slowest_edge;
use super::contest::{Contest, Winner};
use super::edge_graph::EdgeGraph;
use super::equation2::{self, ClassSums};
use super::level_tables::{FitTable, LevelTables};
use super::number::{Byte, Number, Scale};
use super::pattern_search::{Aim, PatternSearch};
use super::space::Space;
use super::speed_ladder::SpeedLadder;
use crate::limits::{MOST_PLACED, MOST_TABLED};
use crate::unanswered::Unanswered;

/// Parts that such a pattern provides; [`PatternSearch`] follows from them.
pub(super) trait SubsetSearch: FitTable + ClassSums {
    /// The edges over `n` ranks, for searches over placements.
    fn graph(&self, n: usize) -> EdgeGraph;

    /// No fewer edges than a match of `n` ranks has: decides how wide a number its sums need.
    fn most_edges(&self, n: usize) -> usize;

    /// For each set of `n`, the largest sum over the edges of a match, MB/s.
    fn sums_in<T: Number>(&self, space: &Space, n: usize, scale: &Scale) -> Vec<i64>;

    /// An order of all vertices with the largest sum on links of at least this level. `known_mb_s`: that sum.
    fn order_in<T: Number>(
        &self,
        space: &Space,
        level: usize,
        scale: &Scale,
        known_mb_s: Option<i64>,
    ) -> Vec<usize>;
}

fn sums(pattern: &impl SubsetSearch, space: &Space, n: usize) -> Vec<i64> {
    let scale = space.scale();
    match pattern.most_edges(n) {
        edges if scale.fits::<Byte>(edges) => pattern.sums_in::<Byte>(space, n, &scale),
        edges if scale.fits::<i16>(edges) => pattern.sums_in::<i16>(space, n, &scale),
        _ => pattern.sums_in::<i32>(space, n, &scale),
    }
}

fn order(pattern: &impl SubsetSearch, space: &Space, level: usize, known_mb_s: Option<i64>) -> Vec<usize> {
    let scale = space.scale();
    match pattern.most_edges(space.len()) {
        edges if scale.fits::<Byte>(edges) => pattern.order_in::<Byte>(space, level, &scale, known_mb_s),
        edges if scale.fits::<i16>(edges) => pattern.order_in::<i16>(space, level, &scale, known_mb_s),
        _ => pattern.order_in::<i32>(space, level, &scale, known_mb_s),
    }
}

/// The level of the slowest edge of the best match of all vertices.
fn slowest_level(pattern: &impl SubsetSearch, space: &Space, budget: &mut Budget) -> usize {
    let m = space.len();
    let graph = pattern.graph(m);
    let mut ladder = SpeedLadder::new(&graph, space).with_tables(Some(LevelTables::new(pattern, space, m)));
    let rung = ladder.fastest((1 << m) - 1, 0..ladder.len(), budget);
    ladder.admit_unsure(budget);
    let rate = rung.and_then(|rung| ladder.rate(rung)).unwrap_or(0.0);
    space.levels.partition_point(|l| f64::from(*l) < rate)
}

impl<P: SubsetSearch> PatternSearch for P {
    fn steps(&self, aim: Aim, _: usize) -> u32 {
        match aim {
            Aim::Equation2 => MOST_PLACED,
            Aim::Slowest | Aim::Sum => MOST_TABLED,
        }
    }

    fn set_by_slowest(&self, contest: Contest<'_>, budget: &mut Budget) -> Result<Winner, Unanswered> {
        let n = contest.query.n;
        let tables = LevelTables::new(self, contest.space, n);
        by_slowest_edge::best_set(&contest, &self.graph(n), Some(tables), budget)
    }

    fn set_by_sum(&self, contest: Contest<'_>, _: &mut Budget) -> Result<Winner, Unanswered> {
        let sums = sums(self, contest.space, contest.query.n);
        contest.by_sums(&sums)
    }

    fn set_by_equation_2(&self, contest: Contest<'_>, budget: &mut Budget) -> Result<Winner, Unanswered> {
        equation2::best_set(&contest, &self.graph(contest.query.n), Some(self), budget)
    }

    fn order_by_slowest(&self, space: &Space, known_mb_s: Option<u32>, budget: &mut Budget) -> Vec<usize> {
        let level = match known_mb_s {
            Some(mb_s) => space.levels.partition_point(|l| *l < mb_s),
            None => slowest_level(self, space, budget),
        };
        order(self, space, level, None)
    }

    fn order_by_sum(&self, space: &Space, known_mb_s: Option<i64>, _: &mut Budget) -> Vec<usize> {
        order(self, space, 0, known_mb_s)
    }

    fn order_by_equation_2(&self, space: &Space, budget: &mut Budget) -> Result<Vec<usize>, Unanswered> {
        equation2::best_order(space, &self.graph(space.len()), Some(self), budget)
    }
}
