//! A good match, found by exchanging places.
//!
//! # Approach
//! A match begins at each vertex in turn and takes the best next vertex for each rank. Then ranks change places with each
//! other or with free vertices while that helps. When nothing helps any more, some places are exchanged at random (the
//! same ones in every run), and it begins again from there.

use super::budget::Budget;
use super::ranks::Ranks;
use super::subsets::bits;
use super::tally::Tally;
use crate::limits::MOST_FREE;

/// Number of climbs, and of times that each goes on from its end after exchanging some places.
#[derive(Clone, Copy)]
pub(super) struct Effort {
    pub(super) starts: usize,
    pub(super) kicks: usize,
}

/// Most rounds of exchanges; about five are enough until none helps.
const ROUNDS: usize = 100;

/// Climbs of one pattern.
pub(super) struct Climb<'a> {
    ranks: &'a Ranks,
    tally: &'a Tally,
    /// Vertex of each rank, then the free ones of the set.
    at: Vec<usize>,
    /// By rank and vertex: what the rank's edges would add if it were there and all others stayed.
    there: [[i64; MOST_FREE]; MOST_FREE],
    total: i64,
    /// The last random number.
    random: u32,
}

impl<'a> Climb<'a> {
    pub(super) fn new(ranks: &'a Ranks, tally: &'a Tally) -> Self {
        let (at, there) = (Vec::with_capacity(MOST_FREE), [[0; MOST_FREE]; MOST_FREE]);
        Self { ranks, tally, at, there, total: 0, random: 1 }
    }

    /// The best match that it finds on vertices of this set: its worth and the vertex of each rank. Stops at one that is
    /// worth `enough`. Shows `seen` every match that nothing makes better.
    ///
    /// `None` if no step is left. A round of exchanges takes a step per rank.
    pub(super) fn best(
        &mut self,
        set: u32,
        effort: Effort,
        enough: f64,
        budget: &mut Budget,
        seen: &mut dyn FnMut(f64, &[usize]),
    ) -> Option<(f64, Vec<usize>)> {
        let n = self.ranks.len();
        let mut best: Option<(f64, Vec<usize>)> = None;
        for (start, first) in bits(set).take(effort.starts).enumerate() {
            self.begin(set, first);
            if start % 2 == 1 {
                // Not all of them from the best links.
                (0..self.at.len()).for_each(|_| self.kick());
            }
            let mut here = f64::NEG_INFINITY;
            for kick in 0..=effort.kicks {
                let before = (self.at.clone(), self.there, self.total);
                if kick > 0 {
                    self.kick();
                }
                if !self.settle(budget) {
                    return best;
                }
                let worth = self.tally.worth(self.total);
                seen(worth, &self.at[..n]);
                if best.as_ref().is_none_or(|(best, _)| worth > *best) {
                    best = Some((worth, self.at[..n].to_vec()));
                }
                if worth >= enough {
                    return best;
                }
                if worth >= here {
                    here = worth;
                } else {
                    (self.at, self.there, self.total) = before;
                }
            }
        }
        best
    }

    /// Each rank on the vertex that adds most to its placed neighbours; of these the first from `first` on.
    fn begin(&mut self, set: u32, first: usize) {
        let mut free = set;
        let mut at = vec![usize::MAX; self.ranks.len()];
        for place in &self.ranks.places {
            let worth = |v: &usize| {
                let added =
                    place.back.iter().map(|e| self.tally.link[*v][at[e.rank]] * self.tally.weighs(e.weight));
                (std::cmp::Reverse(added.sum::<i64>()), (*v + MOST_FREE - first) % MOST_FREE)
            };
            let Some(v) = bits(free).min_by_key(worth) else { break };
            at[place.rank] = v;
            free &= !(1 << v);
        }
        at.extend(bits(free));
        self.at = at;
        self.measure();
    }

    fn measure(&mut self) {
        self.there = [[0; MOST_FREE]; MOST_FREE];
        for (there, near) in self.there.iter_mut().zip(&self.ranks.near) {
            for edge in near {
                let weight = self.tally.weighs(edge.weight);
                let links = &self.tally.link[self.at[edge.rank]];
                there.iter_mut().zip(links).for_each(|(sum, link)| *sum += weight * link);
            }
        }
        self.total =
            self.there.iter().zip(&self.at).take(self.ranks.len()).map(|(of, v)| of[*v]).sum::<i64>() / 2;
    }

    /// A change at random: turns some ranks in a row round, shifts them by one, or exchanges one place or two.
    fn kick(&mut self) {
        let n = self.ranks.len();
        let (a, b) = (self.next(n), self.next(n));
        let (low, high) = (a.min(b), a.max(b));
        match self.next(4) {
            0 => (low..low + (high - low).div_ceil(2)).for_each(|i| self.exchange(i, low + high - i)),
            1 => (low..high).for_each(|i| self.exchange(i, i + 1)),
            changes => {
                for _ in 1..changes {
                    let (a, b) = (self.next(n), self.next(self.at.len()));
                    self.exchange(a, b);
                }
            }
        }
    }

    /// Exchanges what is on two places, `a` one of a rank.
    fn exchange(&mut self, a: usize, b: usize) {
        if a != b {
            let more = self.more(a, b);
            self.swap(a, b, more);
        }
    }

    /// A random number below `end`.
    fn next(&mut self, end: usize) -> usize {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.random >> 16) as usize % end
    }

    /// Makes changes until none helps; `false` if the steps are used up.
    fn settle(&mut self, budget: &mut Budget) -> bool {
        let steps = u32::try_from(self.ranks.len()).unwrap_or(u32::MAX);
        for _ in 0..ROUNDS {
            if !budget.take(steps) {
                return false;
            }
            if !self.better() {
                break;
            }
        }
        true
    }

    /// Gives the change of the total from exchanging two places.
    #[inline]
    fn more(&self, a: usize, b: usize) -> i64 {
        let (u, v) = (self.at[a], self.at[b]);
        let mut more = self.there[a][v] - self.there[a][u];
        if b < self.ranks.len() {
            more += self.there[b][u] - self.there[b][v];
            // Edges between them stay as they are, and are counted only before.
            let between = self.tally.between(self.ranks, a, b);
            if between != 0 {
                more += 2 * between * self.tally.link[u][v];
            }
        }
        more
    }

    /// Exchanges what is on two places.
    fn swap(&mut self, a: usize, b: usize, more: i64) {
        let (u, v) = (self.at[a], self.at[b]);
        self.at.swap(a, b);
        self.total += more;
        self.moved(a, u, v);
        self.moved(b, v, u);
    }

    /// Updates the ranks near one whose vertex changes.
    fn moved(&mut self, rank: usize, from: usize, to: usize) {
        let Some(near) = self.ranks.near.get(rank) else { return };
        for edge in near {
            let weight = self.tally.weighs(edge.weight);
            let change = self.tally.link[from].iter().zip(&self.tally.link[to]);
            let there = &mut self.there[edge.rank];
            there.iter_mut().zip(change).for_each(|(sum, (from, to))| *sum += weight * (to - from));
        }
    }

    /// Makes every change of two places that helps, once.
    fn better(&mut self) -> bool {
        let mut changed = false;
        let mut worth = self.tally.worth(self.total);
        for a in 0..self.ranks.len() {
            for b in a + 1..self.at.len() {
                let more = self.more(a, b);
                if more == 0 {
                    continue;
                }
                let after = self.tally.worth(self.total + more);
                if after > worth {
                    self.swap(a, b, more);
                    (worth, changed) = (after, true);
                }
            }
        }
        changed
    }
}
