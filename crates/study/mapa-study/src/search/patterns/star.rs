//! Rank 0 talks to all others: a match is the choice of its vertex, the centre.

use crate::limits::{MOST_PLACED, MOST_TABLED};
use crate::search::budget::Budget;
use crate::search::contest::{Contest, Winner};
use crate::search::link_classes::class_index;
use crate::search::pattern_search::{Aim, PatternSearch};
use crate::search::space::Space;
use crate::search::subsets::bits;
use crate::unanswered::Unanswered;
use mapa::equation_2;

/// `star`: an edge from rank 0 to every other rank.
pub(super) struct Star;

/// The level of the slowest link from a centre to the rest of its set.
fn slowest_level(space: &Space, mask: u32, centre: usize) -> u8 {
    bits(mask ^ 1 << centre).map(|u| space.level[centre][u]).min().unwrap_or(0)
}

/// Equation 2 of a set with this centre.
fn eff_bw(space: &Space, mask: u32, centre: usize) -> f64 {
    let mut counts = [0; 3];
    bits(mask ^ 1 << centre).for_each(|u| counts[class_index(space.class[centre][u])] += 1);
    let [x, y, z] = counts;
    equation_2(x, y, z)
}

/// The centre of most worth first, then all others ascending.
fn order(space: &Space, worth: impl Fn(usize) -> f64) -> Vec<usize> {
    let m = space.len();
    let centre = (0..m).reduce(|best, v| if worth(v) > worth(best) { v } else { best }).unwrap_or(0);
    std::iter::once(centre).chain((0..m).filter(|v| *v != centre)).collect()
}

fn all(space: &Space) -> u32 {
    (1 << space.len()) - 1
}

impl PatternSearch for Star {
    fn steps(&self, aim: Aim, _: usize) -> u32 {
        match aim {
            Aim::Equation2 => MOST_PLACED,
            Aim::Slowest | Aim::Sum => MOST_TABLED,
        }
    }

    fn set_by_slowest(&self, contest: Contest<'_>, _: &mut Budget) -> Result<Winner, Unanswered> {
        let best = |mask: u32| bits(mask).map(|v| slowest_level(contest.space, mask, v)).max().unwrap_or(0);
        let levels: Vec<u8> = contest.sets().map(best).collect();
        contest.by_levels(&levels)
    }

    fn set_by_sum(&self, contest: Contest<'_>, _: &mut Budget) -> Result<Winner, Unanswered> {
        let best = |mask: u32| bits(mask).map(|v| contest.space.to_set(v, mask)).max().unwrap_or(0);
        let sums: Vec<i64> = contest.sets().map(|mask| i64::from(best(mask))).collect();
        contest.by_sums(&sums)
    }

    fn set_by_equation_2(&self, contest: Contest<'_>, _: &mut Budget) -> Result<Winner, Unanswered> {
        let (space, sets) = (contest.space, contest.sets());
        let best = |mask: u32| bits(mask).map(|v| eff_bw(space, mask, v)).fold(f64::NEG_INFINITY, f64::max);
        contest.by_worth(sets.map(best))
    }

    fn order_by_slowest(&self, space: &Space, _: Option<u32>, _: &mut Budget) -> Vec<usize> {
        let all = all(space);
        // Levels weigh more than any sum.
        let worth = |v| f64::from(slowest_level(space, all, v)) * 1e9 + f64::from(space.to_set(v, all));
        order(space, worth)
    }

    fn order_by_sum(&self, space: &Space, _: Option<i64>, _: &mut Budget) -> Vec<usize> {
        order(space, |v| f64::from(space.to_set(v, all(space))))
    }

    fn order_by_equation_2(&self, space: &Space, _: &mut Budget) -> Result<Vec<usize>, Unanswered> {
        Ok(order(space, |v| eff_bw(space, all(space), v)))
    }
}
