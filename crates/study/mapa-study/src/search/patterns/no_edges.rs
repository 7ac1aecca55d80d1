//! Jobs whose GPUs do not talk: every set and every order is as good.

use crate::limits::{MOST_PLACED, MOST_TABLED};
use crate::search::budget::Budget;
use crate::search::contest::{Contest, Winner};
use crate::search::pattern_search::{Aim, PatternSearch};
use crate::search::space::Space;
use crate::unanswered::Unanswered;

/// No edges: `none`, and every pattern over one rank.
pub(super) struct NoEdges;

fn any_set(contest: Contest<'_>) -> Result<Winner, Unanswered> {
    contest.by_worth(std::iter::repeat(0.0))
}

fn any_order(space: &Space) -> Vec<usize> {
    (0..space.len()).collect()
}

impl PatternSearch for NoEdges {
    fn steps(&self, aim: Aim, _: usize) -> u32 {
        match aim {
            Aim::Equation2 => MOST_PLACED,
            Aim::Slowest | Aim::Sum => MOST_TABLED,
        }
    }

    fn set_by_slowest(&self, contest: Contest<'_>, _: &mut Budget) -> Result<Winner, Unanswered> {
        any_set(contest)
    }

    fn set_by_sum(&self, contest: Contest<'_>, _: &mut Budget) -> Result<Winner, Unanswered> {
        any_set(contest)
    }

    fn set_by_equation_2(&self, contest: Contest<'_>, _: &mut Budget) -> Result<Winner, Unanswered> {
        any_set(contest)
    }

    fn order_by_slowest(&self, space: &Space, _: Option<u32>, _: &mut Budget) -> Vec<usize> {
        any_order(space)
    }

    fn order_by_sum(&self, space: &Space, _: Option<i64>, _: &mut Budget) -> Vec<usize> {
        any_order(space)
    }

    fn order_by_equation_2(&self, space: &Space, _: &mut Budget) -> Result<Vec<usize>, Unanswered> {
        Ok(any_order(space))
    }
}
