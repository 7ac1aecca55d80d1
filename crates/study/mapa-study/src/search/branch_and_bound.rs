//! The order of ranks for any pattern: branch and bound over placements.
//!
//! # Problem
//! Which rank goes on which of `n` GPUs, so that a pattern without any structure gets its best match.
//!
//! # Approach
//! Ranks are placed one after the other, those with most edges to placed ranks first, on the vertex with the best
//! links first. A branch ends when its slowest edge is slower than the best match's, or when even the strongest
//! remaining links cannot make its sum larger.
//!
//! # Limit
//! No bound short of all orders of the ranks is known for patterns that are no ring, chain, star, tree or clique. So
//! placements of one rank are counted ([`limits`](crate::limits)); when the budget is used up, the caller takes the
//! best match so far and says that it is not proven. How fast the slowest edge can be is found by
//! [`speed_ladder`](super::speed_ladder), which mostly finishes.

use mapa::Edge;

use super::budget::Budget;
use super::edge_graph::EdgeGraph;
use super::hill_climb;
use super::space::Space;
use crate::limits::MOST_FREE;

/// Goal of a match. Both give two numbers; the larger first one wins, then the larger second one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// (rate of the slowest edge, sum).
    Slowest,
    /// (sum, 0).
    Sum,
}

/// A match of good sum on links of at least this level: the sum in MB/s and the vertex of each rank; `None` if none is
/// found.
///
/// The hill climb ignores the weights of edges; the sum counts them.
pub(super) fn good_sum(pattern: &EdgeGraph, space: &Space, level: usize) -> Option<(f64, Vec<usize>)> {
    if pattern.edges() > hill_climb::MOST_EDGES {
        return None;
    }
    let edges: Vec<Edge> = pattern.edge_shares().map(|(a, b, weight)| Edge { a, b, weight }).collect();
    let weights = space.weights(level, &space.scale());
    let (_, order) = hill_climb::good::<i32>(&weights, &edges, pattern.ranks(), None)?;
    Some((pattern.sum(space, &order), order))
}

/// A complete match.
#[derive(Clone, Debug)]
pub(super) struct CompleteMatch {
    /// Two numbers by the [`Goal`].
    pub(super) key: (f64, f64),
    /// The vertex of each rank.
    pub(super) order: Vec<usize>,
}

struct VertexSearch<'a> {
    pattern: &'a EdgeGraph,
    space: &'a Space,
    goal: Goal,
    /// Sum of the strongest links for the edges still open, by place.
    most_open: Vec<f64>,
    at: Vec<usize>,
    best: Option<CompleteMatch>,
    /// Matches must beat this.
    floor: (f64, f64),
}

/// A vertex for the next rank: slowest edge and sum with it.
#[derive(Clone, Copy, Default)]
struct NextVertex {
    slowest: f64,
    sum: f64,
    vertex: usize,
}

impl NextVertex {
    fn is_behind(&self, other: &Self) -> bool {
        self.slowest < other.slowest || (self.slowest <= other.slowest && self.sum < other.sum)
    }
}

/// The best match onto all vertices of `space` that beats `floor`; `None` if none does.
///
/// The rate of the slowest edge is MB/s over the edge's share of the heaviest one's weight.
pub(super) fn best(
    pattern: &EdgeGraph,
    space: &Space,
    goal: Goal,
    floor: (f64, f64),
    budget: &mut Budget,
) -> Option<CompleteMatch> {
    let m = space.len();
    let mut links: Vec<f64> = (0..m)
        .flat_map(|a| (a + 1..m).map(move |b| (a, b)))
        .map(|(a, b)| f64::from(space.weight[a][b]))
        .collect();
    links.sort_unstable_by(|a, b| b.total_cmp(a));
    // Parallel edges share a link, so the strongest link bounds each of them.
    let parallel = pattern.has_parallel_edges();
    let link = |i: usize| links.get(if parallel { 0 } else { i }).copied().unwrap_or(0.0);
    let sum = |open: &Vec<f64>| open.iter().enumerate().map(|(i, w)| w * link(i)).sum();
    let most_open = pattern.open.iter().map(sum).collect();
    let mut search =
        VertexSearch { pattern, space, goal, most_open, at: Vec::with_capacity(m), best: None, floor };
    search.extend(0, f64::INFINITY, 0.0, budget);
    search.best
}

impl VertexSearch<'_> {
    fn beats(&self, key: (f64, f64)) -> bool {
        let best = self.best.as_ref().map_or(self.floor, |b| b.key);
        key.0 > best.0 || (key.0 >= best.0 && key.1 > best.1)
    }

    fn key(&self, slowest: f64, sum: f64) -> (f64, f64) {
        match self.goal {
            Goal::Slowest => (slowest, sum),
            Goal::Sum => (sum, 0.0),
        }
    }

    fn extend(&mut self, used: u32, slowest: f64, sum: f64, budget: &mut Budget) {
        let place = self.at.len();
        if place == self.pattern.ranks() {
            let key = self.key(slowest, sum);
            if self.beats(key) {
                self.best = Some(CompleteMatch { key, order: self.pattern.in_rank_order(&self.at) });
            }
            return;
        }
        let mut next = [NextVertex::default(); MOST_FREE];
        let mut n_next = 0;
        for v in (0..self.space.len()).filter(|v| used & 1 << v == 0) {
            let new = self.with(place, v, slowest, sum);
            let mut at = n_next;
            while at > 0 && next[at - 1].is_behind(&new) {
                next[at] = next[at - 1];
                at -= 1;
            }
            next[at] = new;
            n_next += 1;
        }
        for NextVertex { slowest, sum, vertex } in next.into_iter().take(n_next) {
            if budget.0 == 0 {
                return;
            }
            budget.0 -= 1;
            if self.beats(self.key(slowest, sum + self.most_open[place])) {
                self.at.push(vertex);
                self.extend(used | 1 << vertex, slowest, sum, budget);
                self.at.pop();
            }
        }
    }

    fn with(&self, place: usize, vertex: usize, mut slowest: f64, mut sum: f64) -> NextVertex {
        for (p, weight, share) in self.pattern.back(place).unwrap_or_default() {
            let link = f64::from(self.space.weight[self.at[*p]][vertex]);
            slowest = slowest.min(link / share);
            sum += link * weight;
        }
        NextVertex { slowest, sum, vertex }
    }
}
