//! Questions of a policy about a pattern. Each pattern answers all of them, by the search that is exact for it.

use super::budget::Budget;
use super::contest::{Contest, Winner};
use super::space::Space;
use crate::unanswered::Unanswered;

/// By what a policy rates the match of one set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// The rate of the slowest edge, then the sum.
    Slowest,
    /// The sum over all edges (AggBW).
    Sum,
    /// EffBW by Equation 2.
    Equation2,
}

/// The searches for one pattern with its edges.
///
/// An order lists the vertex of each rank. Every search stops when its budget is used up and leaves it at 0: the answer
/// is then a match, but not proven to be the best.
pub(crate) trait PatternSearch {
    /// Most steps of a search by `aim` among `free` GPUs.
    fn steps(&self, aim: Aim, free: usize) -> u32;

    /// The set whose best match has the fastest slowest edge.
    fn set_by_slowest(&self, contest: Contest<'_>, budget: &mut Budget) -> Result<Winner, Unanswered>;

    /// The set whose best match has the largest sum.
    fn set_by_sum(&self, contest: Contest<'_>, budget: &mut Budget) -> Result<Winner, Unanswered>;

    /// The set whose best match has the largest value of Equation 2.
    ///
    /// # Errors
    ///
    /// [`Unanswered::OutOfSteps`] if the budget is used up before any match is found.
    fn set_by_equation_2(&self, contest: Contest<'_>, budget: &mut Budget) -> Result<Winner, Unanswered>;

    /// The order of all vertices with the fastest slowest edge, and of those one with a large sum. `known_mb_s`: the
    /// bandwidth of that edge, if a search for the set has found it.
    fn order_by_slowest(&self, space: &Space, known_mb_s: Option<u32>, budget: &mut Budget) -> Vec<usize>;

    /// The order of all vertices with the largest sum. `known_mb_s`: that sum, if a search for the set has found it.
    fn order_by_sum(&self, space: &Space, known_mb_s: Option<i64>, budget: &mut Budget) -> Vec<usize>;

    /// The order of all vertices with the largest value of Equation 2.
    ///
    /// # Errors
    ///
    /// As [`PatternSearch::set_by_equation_2`].
    fn order_by_equation_2(&self, space: &Space, budget: &mut Budget) -> Result<Vec<usize>, Unanswered>;
}
