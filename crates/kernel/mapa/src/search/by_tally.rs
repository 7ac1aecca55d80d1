//! The best set and order by what the edges of a match add up to: the sum of their links, or Equation 2.
//!
//! # Approach
//! Exchanging places finds a good match. Where few orders exist, each set is then searched for a better one by branch and
//! bound, and for one that is as good, because ties are broken by sets. Where there are many, the sets that ties prefer
//! are asked first whether exchanging places makes their match as good, until the steps are used up.

use super::budget::Budget;
use super::climb::{Climb, Effort};
use super::contest::{Contest, KnownOrder, Preference, Winner};
use super::orders::Orders;
use super::ranks::Ranks;
use super::space::Space;
use super::subsets::bits;
use super::tally::Tally;

/// Effort to find a good match where few orders exist.
const FEW: Effort = Effort { starts: 4, kicks: 2 };
/// Effort on one set after the other, in each pass over all sets.
const ON_A_SET: Effort = Effort { starts: 2, kicks: 10 };
/// Number of beginnings of a long climb: going on from its end is better.
const STARTS: usize = 4;
/// Effort to reach one count of links.
const AT_COUNTS: Effort = Effort { starts: 6, kicks: 20 };

/// Gives the effort that takes about so many steps.
fn effort(steps: u32, ranks: usize) -> Effort {
    // A climb's end is reached in about three rounds of a step per rank.
    let ends = steps as usize / (3 * ranks).max(1);
    Effort { starts: STARTS, kicks: ends / STARTS }
}

/// The searches of one pattern by a tally with bounds.
pub(crate) struct TallySearch<'a> {
    pub(crate) ranks: &'a Ranks,
    pub(crate) tally: &'a Tally,
}

/// The best match so far.
struct Best {
    worth: f64,
    preference: Preference,
    order: Vec<usize>,
}

fn mask_of(order: &[usize]) -> u32 {
    order.iter().fold(0, |mask, v| mask | 1 << v)
}

impl TallySearch<'_> {
    /// The set whose best match is worth most.
    pub(crate) fn set(&self, contest: &Contest<'_>, budget: &mut Budget) -> Winner {
        let space = contest.space;
        let (best, tied, is_proven) = if self.ranks.is_few(space.len()) {
            let (best, tied) = self.try_all(contest);
            (best, Some(tied), true)
        } else {
            (self.try_preferred(contest, budget), None, false)
        };
        let order = best.order.iter().map(|v| space.gpus[*v]).collect();
        let known = KnownOrder { order: Some(order), slowest: None };
        Winner { mask: mask_of(&best.order), tied, known, is_proven }
    }

    /// No match of a set is worth more, as far as the links of each vertex tell.
    fn at_most(&self, space: &Space, mask: u32) -> f64 {
        let Some((weight, most)) = self.ranks.plain().filter(|_| self.tally.is_sum()) else {
            return f64::INFINITY;
        };
        let ends: i64 = match most {
            most if most + 1 >= self.ranks.len() => 2 * i64::from(space.among(mask)),
            1 | 2 => bits(mask).map(|v| self.two_best(v, mask)).sum(),
            _ => return f64::INFINITY,
        };
        self.tally.worth(ends * weight / 2)
    }

    /// The two best links of a vertex to a set.
    fn two_best(&self, v: usize, mask: u32) -> i64 {
        let two =
            bits(mask & !(1 << v)).map(|u| self.tally.link[v][u]).fold((0, 0), |(first, second), link| {
                if link > first { (link, first) } else { (first, second.max(link)) }
            });
        two.0 + two.1
    }

    /// The best match and how many sets are worth as much.
    fn try_all(&self, contest: &Contest<'_>) -> (Best, u64) {
        let all = (1_u32 << contest.space.len()) - 1;
        let mut orders = Orders::new(self.ranks, self.tally);
        let mut best =
            Best { worth: f64::NEG_INFINITY, preference: contest.preference(0), order: Vec::new() };
        let good = Climb::new(self.ranks, self.tally).best(
            all,
            FEW,
            f64::INFINITY,
            &mut Budget(u32::MAX),
            &mut |_, _| {},
        );
        let mut floor = good.map_or(f64::NEG_INFINITY, |(worth, _)| worth);
        let mut tied = 0;
        for mask in contest.sets() {
            if self.at_most(contest.space, mask) < floor {
                continue;
            }
            let Some((worth, order)) = orders.best(mask, floor) else { continue };
            floor = worth;
            let preference = contest.preference(mask);
            let is_more = worth > best.worth;
            tied = if is_more { 1 } else { tied + 1 };
            if is_more || preference > best.preference {
                best = Best { worth, preference, order: order[..self.ranks.len()].to_vec() };
            }
        }
        (best, tied)
    }

    fn try_preferred(&self, contest: &Contest<'_>, budget: &mut Budget) -> Best {
        let all = (1_u32 << contest.space.len()) - 1;
        let any: Vec<usize> = (0..self.ranks.len()).collect();
        let mut best =
            Best { worth: f64::NEG_INFINITY, preference: contest.preference(mask_of(&any)), order: any };
        let mut climb = Climb::new(self.ranks, self.tally);
        let (worth, order) =
            self.anywhere(all, budget.0 / 3, budget, &mut |worth, order| best.offer(contest, worth, order));
        best.offer(contest, worth, &order);
        let sets = contest.sets().map(|mask| contest.preference(mask));
        let mut sets: Vec<Preference> = sets.filter(|preference| *preference > best.preference).collect();
        sets.sort_unstable_by(|a, b| b.cmp(a));
        while budget.0 > 0 && !sets.is_empty() {
            for preference in &sets {
                let mask = preference.1.reverse_bits();
                let is_behind =
                    *preference <= best.preference || self.at_most(contest.space, mask) < best.worth;
                if !is_behind {
                    let enough = best.worth;
                    climb.best(mask, ON_A_SET, enough, budget, &mut |worth, order| {
                        best.offer(contest, worth, order)
                    });
                }
            }
            sets.retain(|set| {
                *set > best.preference && self.at_most(contest.space, set.1.reverse_bits()) >= best.worth
            });
        }
        best
    }

    /// A good match on vertices of this set, for about so many steps. Under Equation 2 the climb to the best score can
    /// end far from it, so it is followed by climbs to each count of links that would be better.
    fn anywhere(
        &self,
        set: u32,
        steps: u32,
        budget: &mut Budget,
        seen: &mut dyn FnMut(f64, &[usize]),
    ) -> (f64, Vec<usize>) {
        let effort = effort(steps, self.ranks.len());
        let found = Climb::new(self.ranks, self.tally).best(set, effort, f64::INFINITY, budget, seen);
        let found = found.unwrap_or_else(|| (f64::NEG_INFINITY, bits(set).take(self.ranks.len()).collect()));
        let mut left = Budget(steps);
        for wanted in self.tally.better_counts(found.0) {
            let better = Climb::new(self.ranks, &wanted).best(set, AT_COUNTS, 0.0, &mut left, &mut |_, _| {});
            if let Some((_, order)) = better.filter(|(distance, _)| *distance >= 0.0) {
                return (self.worth(&order), order);
            }
        }
        found
    }

    /// The worth of a match.
    fn worth(&self, order: &[usize]) -> f64 {
        let before = |rank: usize| self.ranks.near[rank].iter().filter(move |edge| edge.rank < rank);
        let add = |rank: usize| {
            before(rank)
                .map(move |e| self.tally.link[order[rank]][order[e.rank]] * self.tally.weighs(e.weight))
        };
        self.tally.worth((0..order.len()).flat_map(add).sum())
    }

    /// The best order of all vertices of a space. The flag: it is proven.
    pub(crate) fn order(&self, space: &Space, budget: &mut Budget) -> (Vec<usize>, bool) {
        let all = (1_u32 << space.len()) - 1;
        let is_few = self.ranks.is_few(space.len());
        if !is_few {
            return (self.anywhere(all, budget.0, budget, &mut |_, _| {}).1, false);
        }
        let good = Climb::new(self.ranks, self.tally).best(all, FEW, f64::INFINITY, budget, &mut |_, _| {});
        let (worth, order) = good.unwrap_or((f64::NEG_INFINITY, bits(all).collect()));
        let best = Orders::new(self.ranks, self.tally).best(all, worth);
        (best.map_or(order, |(_, best)| best[..space.len()].to_vec()), true)
    }
}

impl Best {
    fn offer(&mut self, contest: &Contest<'_>, worth: f64, order: &[usize]) {
        if worth < self.worth {
            return;
        }
        let preference = contest.preference(mask_of(order));
        if worth > self.worth || preference > self.preference {
            *self = Self { worth, preference, order: order.to_vec() };
        }
    }
}
