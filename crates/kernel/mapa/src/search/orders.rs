//! The best order of ranks on a few vertices: every order that can still be the best, by branch and bound.

use super::ranks::Ranks;
use super::space::Space;
use super::subsets::bits;
use super::tally::Tally;
use crate::limits::MOST_FREE;

/// The vertex of each rank.
pub(super) type Order = [usize; MOST_FREE];

/// Searches the orders of one set after the other.
pub(super) struct Orders<'a> {
    ranks: &'a Ranks,
    tally: &'a Tally,
    /// No edge may be slower: MB/s over its share of the heaviest one's weight.
    slowest: Option<(f64, &'a Space)>,
    /// By place: the most that edges between ranks which are not placed after it can add to a sum on this set.
    open: [i64; MOST_FREE],
    has_parallel_edges: bool,
    has_one_order: bool,
    at: Order,
    best: Option<(f64, Order)>,
    floor: f64,
}

impl<'a> Orders<'a> {
    /// By this tally, which has bounds.
    pub(super) fn new(ranks: &'a Ranks, tally: &'a Tally) -> Self {
        Self {
            ranks,
            tally,
            slowest: None,
            open: [0; MOST_FREE],
            has_parallel_edges: ranks.has_parallel_edges(),
            has_one_order: ranks.has_one_order(),
            at: [0; MOST_FREE],
            best: None,
            floor: f64::NEG_INFINITY,
        }
    }

    /// Without edges that are slower than this.
    pub(super) fn no_slower_than(self, slowest: f64, space: &'a Space) -> Self {
        Self { slowest: Some((slowest, space)), ..self }
    }

    /// The best order of a set that is worth at least `floor`, and its worth; of orders that are worth as much the first in
    /// the order of vertices.
    pub(super) fn best(&mut self, set: u32, floor: f64) -> Option<(f64, Order)> {
        (self.best, self.floor) = (None, floor);
        if self.has_one_order {
            return self.only(set);
        }
        self.bound(set);
        self.extend(0, set, 0);
        self.best
    }

    /// The lowest vertex on rank 0, and so on.
    fn only(&self, set: u32) -> Option<(f64, Order)> {
        let mut at = [0; MOST_FREE];
        at.iter_mut().zip(bits(set)).for_each(|(at, v)| *at = v);
        let mut total = 0;
        for (rank, near) in self.ranks.near.iter().enumerate() {
            let before = near.iter().filter(|edge| edge.rank < rank);
            total += before
                .map(|e| self.tally.link[at[rank]][at[e.rank]] * self.tally.weighs(e.weight))
                .sum::<i64>();
        }
        let worth = self.tally.worth(total);
        (worth >= self.floor).then_some((worth, at))
    }

    fn bound(&mut self, set: u32) {
        if !self.tally.is_sum() {
            return;
        }
        let mut links: Vec<i64> = Vec::with_capacity(MOST_FREE * MOST_FREE / 2);
        for a in bits(set) {
            links.extend(bits(set & !((2 << a) - 1)).map(|b| self.tally.link[a][b]));
        }
        links.sort_unstable_by(|a, b| b.cmp(a));
        if let (true, Some(strongest)) = (self.has_parallel_edges, links.first().copied()) {
            links.fill(strongest);
            links.resize(self.ranks.edges(), strongest);
        }
        for (open, place) in self.open.iter_mut().zip(&self.ranks.places) {
            *open = place.open.iter().zip(&links).map(|(weight, link)| weight * link).sum();
        }
    }

    fn may_win(&self, worth: f64) -> bool {
        match &self.best {
            Some((best, _)) => worth > *best,
            None => worth >= self.floor,
        }
    }

    fn extend(&mut self, place: usize, free: u32, total: i64) {
        let Some(here) = self.ranks.places.get(place) else {
            let worth = self.tally.worth(total);
            if self.may_win(worth) {
                self.best = Some((worth, self.at));
            }
            return;
        };
        for v in bits(here.allowed(free, &self.at)) {
            let Some(more) = self.added(place, v) else { continue };
            let (total, free) = (total + more, free & !(1 << v));
            self.at[here.rank] = v;
            if self.may_win(self.tally.at_most(total, here.closed, self.can_add(place, free))) {
                self.extend(place + 1, free, total);
            }
        }
    }

    /// The most that the edges which are open after a place can add to a sum.
    #[inline]
    fn can_add(&self, place: usize, free: u32) -> i64 {
        if !self.tally.is_sum() {
            return 0;
        }
        let best = |rank: usize| bits(free).map(|v| self.tally.link[self.at[rank]][v]).max().unwrap_or(0);
        let half = self.ranks.places[place].half.iter().map(|(rank, weight)| weight * best(*rank));
        half.sum::<i64>() + self.open[place]
    }

    /// Sums what the edges of a place to earlier ones add; `None` if one is too slow.
    #[inline]
    fn added(&self, place: usize, v: usize) -> Option<i64> {
        let mut more = 0;
        for edge in &self.ranks.places[place].back {
            let to = self.at[edge.rank];
            if let Some((slowest, space)) = self.slowest
                && f64::from(space.weight[to][v]) / edge.share < slowest
            {
                return None;
            }
            more += self.tally.link[to][v] * self.tally.weighs(edge.weight);
        }
        Some(more)
    }
}
