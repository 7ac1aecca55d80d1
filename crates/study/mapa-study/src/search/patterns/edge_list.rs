//! Edge lists that are no tree: searches over placements, within a limit.

use crate::limits::{FEW_STEPS, MOST_PLACED_LISTED, MOST_PROVEN, MOST_STEPS};
use crate::search::branch_and_bound::{Goal, best, good_sum};
use crate::search::budget::Budget;
use crate::search::contest::{Contest, LinksTaken, Winner};
use crate::search::edge_graph::EdgeGraph;
use crate::search::pattern_search::{Aim, PatternSearch};
use crate::search::space::Space;
use crate::search::speed_ladder::SpeedLadder;
use crate::search::{by_slowest_edge, equation2};
use crate::unanswered::Unanswered;

/// Any edges, with weights.
pub(super) struct EdgeList(pub(super) EdgeGraph);

impl PatternSearch for EdgeList {
    fn steps(&self, aim: Aim, free: usize) -> u32 {
        match aim {
            Aim::Equation2 => MOST_PLACED_LISTED,
            Aim::Sum if free > MOST_PROVEN => FEW_STEPS,
            Aim::Sum | Aim::Slowest => MOST_STEPS,
        }
    }

    fn set_by_slowest(&self, contest: Contest<'_>, budget: &mut Budget) -> Result<Winner, Unanswered> {
        by_slowest_edge::best_set(&contest, &self.0, None, budget)
    }

    /// Tries the sets with most bandwidth among them first.
    fn set_by_sum(&self, mut contest: Contest<'_>, budget: &mut Budget) -> Result<Winner, Unanswered> {
        let space = contest.space;
        let mut sets: Vec<(u32, LinksTaken, u32)> =
            contest.sets().map(|mask| (space.among(mask), contest.taken(mask), mask)).collect();
        sets.sort_unstable_by(|a, b| {
            b.0.cmp(&a.0).then(a.1.cmp(&b.1)).then(b.2.reverse_bits().cmp(&a.2.reverse_bits()))
        });
        if let Some((sum, order)) = good_sum(&self.0, space, 0) {
            contest.offer(sum, order.into_iter().fold(0, |mask, v| mask | 1 << v));
        }
        for (_, _, mask) in sets {
            if budget.0 == 0 && contest.best_worth().is_some() {
                break;
            }
            let floor = (contest.best_worth().map_or(f64::NEG_INFINITY, |worth| worth - 0.5), 0.0);
            if let Some(found) = best(&self.0, &space.part(mask), Goal::Sum, floor, budget) {
                contest.offer(found.key.0, mask);
            }
        }
        Ok(Winner { tied: None, ..contest.winner()? })
    }

    fn set_by_equation_2(&self, contest: Contest<'_>, budget: &mut Budget) -> Result<Winner, Unanswered> {
        equation2::best_set(&contest, &self.0, None, budget)
    }

    fn order_by_slowest(&self, space: &Space, _: Option<u32>, budget: &mut Budget) -> Vec<usize> {
        let all = (1_u32 << space.len()) - 1;
        let mut ladder = SpeedLadder::new(&self.0, space);
        let rung = ladder.fastest(all, 0..ladder.len(), budget);
        ladder.admit_unsure(budget);
        let found = rung
            .and_then(|rung| Some((ladder.rate(rung)?, ladder.order(rung, all, &mut Budget(MOST_STEPS))?)));
        let Some((slowest, order)) = found else { return (0..space.len()).collect() };
        let sum = self.0.sum(space, &order);
        let level = space.levels.partition_point(|l| f64::from(*l) < slowest);
        let good = good_sum(&self.0, space, level).filter(|(good, _)| *good > sum);
        let (sum, order) = good.unwrap_or((sum, order));
        let better = best(&self.0, space, Goal::Slowest, (slowest, sum), &mut Budget(FEW_STEPS));
        better.map_or(order, |better| better.order)
    }

    fn order_by_sum(&self, space: &Space, _: Option<i64>, budget: &mut Budget) -> Vec<usize> {
        let good = good_sum(&self.0, space, 0);
        let (sum, order) = good.unwrap_or((f64::NEG_INFINITY, (0..space.len()).collect()));
        best(&self.0, space, Goal::Sum, (sum, 0.0), budget).map_or(order, |better| better.order)
    }

    fn order_by_equation_2(&self, space: &Space, budget: &mut Budget) -> Result<Vec<usize>, Unanswered> {
        equation2::best_order(space, &self.0, None, budget)
    }
}
