//! The best set and order by the slowest edge.
//!
//! # Approach
//! A set is worth no more than a match with the fastest rate that any set reaches. Sets are tried in the order of that
//! bound, until no set that is left can beat the best one. A tried set must first fit on the slowest links that would
//! still win; most sets fail there.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::budget::Budget;
use super::climb::{Climb, Effort};
use super::contest::{Contest, KnownOrder, Preference, Winner};
use super::orders::Orders;
use super::ranks::Ranks;
use super::space::Space;
use super::speed_ladder::SpeedLadder;
use super::tally::{Score, Tally};

/// A set in the order of preference: worth (actual or at best), then what breaks ties.
#[derive(PartialEq)]
struct Candidate {
    worth: f64,
    preference: Preference,
}

impl Candidate {
    fn mask(&self) -> u32 {
        self.preference.1.reverse_bits()
    }
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.worth.total_cmp(&other.worth).then_with(|| self.preference.cmp(&other.preference))
    }
}

/// More sets than this that may tie are not counted.
const MOST_COUNTED: usize = 128;

/// Number of sets above which each is searched for a shorter time.
const MANY_SETS: usize = 200;

/// Effort for a larger sum of an order with the fastest slowest edge.
const EFFORT: Effort = Effort { starts: 16, kicks: 8 };
const FEW: Effort = Effort { starts: 4, kicks: 1 };

/// The searches of one pattern by its slowest edge.
pub(crate) struct SlowestSearch<'a> {
    pub(crate) ranks: &'a Ranks,
}

impl SlowestSearch<'_> {
    /// The set whose match has the fastest slowest edge.
    pub(crate) fn set(&self, contest: &Contest<'_>, budget: &mut Budget) -> Winner {
        let space = contest.space;
        let predict = |slowest: f64, mask: u32| space.predict(contest.query.model, slowest, mask);
        let candidate = |mask: u32, slowest: f64| Candidate {
            worth: predict(slowest, mask),
            preference: contest.preference(mask),
        };
        let mut ladder = SpeedLadder::new(self.ranks, space);
        // Rates that no set reaches need not be refused for each.
        let all = (1_u32 << space.len()) - 1;
        let any: u32 = (1 << self.ranks.len()) - 1;
        let (top, first) =
            ladder.fastest(all, 0..ladder.len(), budget).map_or((ladder.len() - 1, any), |(top, order)| {
                (top, order.into_iter().fold(0, |set, v| set | 1 << v))
            });
        let fastest = ladder.rate(top).unwrap_or(0.0);
        let mut open: BinaryHeap<Candidate> = contest.sets().map(|mask| candidate(mask, fastest)).collect();
        if open.len() > MANY_SETS {
            ladder.hurry();
        }
        let mut best = (candidate(first, fastest), fastest);
        let mut tied = 0;
        while let Some(at_best) = open.pop() {
            if at_best < best.0 {
                open.push(at_best);
                break;
            }
            if budget.0 == 0 {
                break;
            }
            let mask = at_best.mask();
            let enough = ladder.end(top, |slowest| predict(slowest, mask) >= best.0.worth);
            let Some((rung, _)) = ladder.fastest(mask, top..enough, budget) else { continue };
            let slowest = ladder.rate(rung).unwrap_or(0.0);
            let actual = candidate(mask, slowest);
            tied = if actual.worth > best.0.worth { 1 } else { tied + 1 };
            if actual > best.0 {
                best = (actual, slowest);
            }
        }
        // What is left can tie, but not win.
        let tied = self.count(&best.0, (&open, tied), &mut ladder, (top, &predict), budget);
        let is_proven = ladder.is_sure && budget.0 > 0;
        let known = KnownOrder { order: None, slowest: Some(best.1) };
        Winner { mask: best.0.mask(), tied: tied.filter(|_| is_proven), known, is_proven }
    }

    /// Counts the sets that are worth as much as the best one, where few may be and the pattern is no edge list with a circle.
    fn count(
        &self,
        best: &Candidate,
        (open, tied): (&BinaryHeap<Candidate>, u64),
        ladder: &mut SpeedLadder<'_>,
        (top, predict): (usize, &dyn Fn(f64, u32) -> f64),
        budget: &mut Budget,
    ) -> Option<u64> {
        let may_tie = |c: &&Candidate| c.worth >= best.worth;
        (open.iter().filter(may_tie).count() <= MOST_COUNTED).then(|| {
            let mut ties = |c: &&Candidate| {
                let end = ladder.end(top, |slowest| predict(slowest, c.mask()) >= best.worth);
                end > top && ladder.order(end - 1, c.mask(), budget).is_some()
            };
            tied + open.iter().filter(may_tie).filter(|c| ties(c)).count() as u64
        })
    }

    /// The order of all vertices of a space with the fastest slowest edge, and of those one with a large sum. `known`: the
    /// rate of that edge, if a search for the set has found it. The flag: the rate is proven.
    pub(crate) fn order(&self, space: &Space, known: Option<f64>, budget: &mut Budget) -> (Vec<usize>, bool) {
        let all = (1_u32 << space.len()) - 1;
        let mut ladder = SpeedLadder::new(self.ranks, space);
        let from = known.map_or(0, |known| ladder.end(0, |rate| rate > known));
        let rungs = if known.is_some() { from..from + 1 } else { 0..ladder.len() };
        let Some((rung, order)) = ladder.fastest(all, rungs, budget) else {
            return ((0..space.len()).collect(), false);
        };
        let slowest = ladder.rate(rung).unwrap_or(0.0);
        (self.with_large_sum(space, slowest, order), known.is_some() || ladder.is_sure)
    }

    /// An order without a slower edge and with the largest sum, or one as large as exchanging places makes it.
    fn with_large_sum(&self, space: &Space, slowest: f64, order: Vec<usize>) -> Vec<usize> {
        let all = (1_u32 << space.len()) - 1;
        let plain = Tally::new(space, Score::Sum).with_bounds();
        let sum = |order: &[usize]| {
            let of = |(rank, v): (usize, &usize)| {
                let near = self.ranks.near[rank].iter().filter(move |edge| edge.rank < rank);
                near.map(|edge| plain.link[*v][order[edge.rank]] * edge.weight).sum::<i64>()
            };
            plain.worth(order.iter().enumerate().map(of).sum())
        };
        let is_fast = |order: &[usize]| {
            self.ranks.near.iter().zip(order).all(|(near, v)| {
                near.iter().all(|e| f64::from(space.weight[*v][order[e.rank]]) / e.share >= slowest)
            })
        };
        let fast = Tally::on_fast_links(space, slowest);
        // A climb's steps are as many as its effort makes them.
        let effort = if self.ranks.is_few(space.len()) { FEW } else { EFFORT };
        let climbed = Climb::new(self.ranks, &fast).best(
            all,
            effort,
            f64::INFINITY,
            &mut Budget(u32::MAX),
            &mut |_, _| {},
        );
        let climbed =
            climbed.map(|(_, order)| order).filter(|climbed| is_fast(climbed) && sum(climbed) >= sum(&order));
        let order = climbed.unwrap_or(order);
        if !self.ranks.is_few(space.len()) {
            return order;
        }
        let mut orders = Orders::new(self.ranks, &plain).no_slower_than(slowest, space);
        orders.best(all, sum(&order)).map_or(order, |(_, best)| best[..space.len()].to_vec())
    }
}
