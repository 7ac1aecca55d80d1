//! The best set by the slowest edge of its best match.
//!
//! # Approach
//! A set is worth no more than a match with the fastest rate that any set reaches. Sets are tried in the order of that
//! bound, until no set that is left can beat the best one. A tried set must first fit on the slowest links that would
//! still win; most sets fail there.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::budget::Budget;
use super::contest::{Contest, KnownOrder, LinksTaken, Winner};
use super::edge_graph::EdgeGraph;
use super::level_tables::LevelTables;
use super::speed_ladder::SpeedLadder;
use crate::unanswered::Unanswered;
use mapa::NoMatch;

/// A set in the order of preference: worth (actual or at best), links that it takes from others, lowest GPUs first.
#[derive(PartialEq)]
struct RankedSet {
    worth: f64,
    taken: Reverse<LinksTaken>,
    first: u32,
}

impl RankedSet {
    fn mask(&self) -> u32 {
        self.first.reverse_bits()
    }
}

impl Eq for RankedSet {}

impl PartialOrd for RankedSet {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RankedSet {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |c: &Self| (c.taken, c.first);
        self.worth.total_cmp(&other.worth).then_with(|| key(self).cmp(&key(other)))
    }
}

/// More sets than this that may tie are not counted.
const MOST_COUNTED: usize = 128;

/// The set whose match has the fastest slowest edge, or any set, if the budget is used up before one is found.
///
/// Ties are counted only for patterns with `tables`, and only if few sets may tie.
pub(super) fn best_set(
    contest: &Contest<'_>,
    pattern: &EdgeGraph,
    tables: Option<LevelTables<'_>>,
    budget: &mut Budget,
) -> Result<Winner, Unanswered> {
    let space = contest.space;
    let predict = |slowest: f64, mask: u32| space.predict(contest.query.model, slowest, mask);
    let all = (1_u32 << space.len()) - 1;
    let may_count = tables.is_some();
    let mut ladder = SpeedLadder::new(pattern, space).with_tables(tables);
    // Rates that no set reaches need not be refused for each.
    let top = ladder.fastest(all, 0..ladder.len(), budget).unwrap_or(0);
    let candidate = |mask: u32, slowest: f64| RankedSet {
        worth: predict(slowest, mask),
        taken: Reverse(contest.taken(mask)),
        first: mask.reverse_bits(),
    };
    let fastest = ladder.rate(top).ok_or(Unanswered::NoMatch(NoMatch::Nothing))?;
    let mut open: BinaryHeap<RankedSet> = contest.sets().map(|mask| candidate(mask, fastest)).collect();
    let any = open.peek().map(RankedSet::mask);
    let mut best: Option<(RankedSet, f64)> = None;
    let mut tied = 0;
    while let Some(at_best) = open.pop() {
        if best.as_ref().is_some_and(|(best, _)| at_best < *best) {
            open.push(at_best);
            break;
        }
        let mask = at_best.mask();
        let least = best.as_ref().map_or(f64::NEG_INFINITY, |(best, _)| best.worth);
        let enough = ladder.end(top, |slowest| predict(slowest, mask) >= least);
        let Some(rung) = ladder.fastest(mask, top..enough, budget) else { continue };
        let slowest = ladder.rate(rung).ok_or(Unanswered::NoMatch(NoMatch::Nothing))?;
        let actual = candidate(mask, slowest);
        tied = if actual.worth > least { 1 } else { tied + 1 };
        if best.as_ref().is_none_or(|(best, _)| actual > *best) {
            best = Some((actual, slowest));
        }
    }
    let Some((best, rate)) = best else {
        budget.0 = 0;
        let mask = any.ok_or(Unanswered::NoMatch(NoMatch::Nothing))?;
        return Ok(Winner { mask, tied: None, known: KnownOrder::default() });
    };
    // What is left can tie, but not win.
    let may_tie = |c: &&RankedSet| c.worth >= best.worth;
    let tied = (may_count && open.iter().filter(may_tie).count() <= MOST_COUNTED).then(|| {
        let ties = |c: &&RankedSet| {
            let end = ladder.end(top, |slowest| predict(slowest, c.mask()) >= best.worth);
            end > top && ladder.is_on(end - 1, c.mask(), budget)
        };
        tied + open.iter().filter(may_tie).filter(ties).count() as u64
    });
    ladder.admit_unsure(budget);
    let slowest_mb_s = space.levels.iter().find(|level| f64::from(**level) >= rate).copied();
    Ok(Winner { mask: best.mask(), tied, known: KnownOrder { slowest_mb_s, ..KnownOrder::default() } })
}
