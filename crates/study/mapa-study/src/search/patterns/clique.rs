//! All ranks talk to all others: orders of a set do not differ, so its links are all that counts.

use topology::LinkClass;

use crate::limits::{MOST_PLACED, MOST_TABLED};
use crate::search::budget::Budget;
use crate::search::contest::{Contest, Winner};
use crate::search::link_classes::class_index;
use crate::search::pattern_search::{Aim, PatternSearch};
use crate::search::space::Space;
use crate::search::subsets::bits;
use crate::unanswered::Unanswered;
use mapa::equation_2;

/// `all`: an edge between every two ranks.
pub(super) struct Clique;

/// The level of the slowest link among a set.
fn slowest_level(space: &Space, mask: u32) -> u8 {
    let at = |v: usize| bits(mask ^ 1 << v).map(|u| space.level[v][u]).min().unwrap_or(0);
    bits(mask).map(at).min().unwrap_or(0)
}

/// Equation 2 of a set.
fn eff_bw(space: &Space, mask: u32) -> f64 {
    let mut counts = [0; 3];
    let mut count = |class: LinkClass| counts[class_index(class)] += 1;
    for a in bits(mask) {
        bits(mask & !((2 << a) - 1)).for_each(|b| count(space.class[a][b]));
    }
    let [x, y, z] = counts;
    equation_2(x, y, z)
}

fn any_order(space: &Space) -> Vec<usize> {
    (0..space.len()).collect()
}

impl PatternSearch for Clique {
    fn steps(&self, aim: Aim, _: usize) -> u32 {
        match aim {
            Aim::Equation2 => MOST_PLACED,
            Aim::Slowest | Aim::Sum => MOST_TABLED,
        }
    }

    fn set_by_slowest(&self, contest: Contest<'_>, _: &mut Budget) -> Result<Winner, Unanswered> {
        let levels: Vec<u8> = contest.sets().map(|mask| slowest_level(contest.space, mask)).collect();
        contest.by_levels(&levels)
    }

    fn set_by_sum(&self, contest: Contest<'_>, _: &mut Budget) -> Result<Winner, Unanswered> {
        let sums: Vec<i64> = contest.sets().map(|mask| i64::from(contest.space.among(mask))).collect();
        contest.by_sums(&sums)
    }

    fn set_by_equation_2(&self, contest: Contest<'_>, _: &mut Budget) -> Result<Winner, Unanswered> {
        let (space, sets) = (contest.space, contest.sets());
        contest.by_worth(sets.map(|mask| eff_bw(space, mask)))
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
