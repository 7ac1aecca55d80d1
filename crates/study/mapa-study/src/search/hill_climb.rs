//! A good match, found fast: the exact searches drop partial sums that are worse.
//!
//! # Approach
//! A match begins at each vertex in turn and takes the best next vertex for each rank. Then ranks change places with each
//! other or with free vertices while that improves the sum. The result decides nothing: a worse one only makes the exact
//! search that follows slower.

use super::number::{Number, Weights};
use crate::limits::MOST_FREE;
use mapa::Edge;

/// Lack of a missing link, in units; the sum over twice [`MOST_EDGES`] fits. A match that lacks as much is not found
/// here; that takes 17 edges in units of 1 MB/s.
const MISSING: u32 = 1 << 24;

/// Most edges of a pattern: those of a clique of 16.
pub(super) const MOST_EDGES: usize = 120;

/// Most rounds of exchanges; about five are enough until none helps.
const ROUNDS: usize = 100;

/// A pattern and what its edges lack, in units.
struct HillClimb {
    lacks: [[u32; MOST_FREE]; MOST_FREE],
    near: Vec<Vec<usize>>,
    /// Vertex of each rank, then the free ones.
    at: Vec<usize>,
    /// By place and vertex: what the place's edges would lack if that vertex were there and all others stayed.
    there: [[u32; MOST_FREE]; MOST_FREE],
    /// Chooses the places that a kick exchanges; the same ones in every run.
    next: usize,
}

/// How often a climb goes on from its end after exchanging some places.
const KICKS: usize = 8;

/// Returns the lack of a good match of `n` ranks; [`Number::NONE`] if none was found.
pub(super) fn limit<T: Number>(weights: &Weights<T>, edges: &[Edge], n: usize) -> T {
    good(weights, edges, n, None).map_or(T::NONE, |(lacks, _)| lacks)
}

/// A good match of `n` ranks: what it lacks, and the vertex of each rank. Stops at one that lacks `enough` or less. Takes
/// at most [`MOST_EDGES`] edges.
pub(super) fn good<T: Number>(
    weights: &Weights<T>,
    edges: &[Edge],
    n: usize,
    enough: Option<T>,
) -> Option<(T, Vec<usize>)> {
    let m = weights.of.len();
    let enough = enough.and_then(Number::units).unwrap_or(0);
    let mut climb = HillClimb::new(weights, edges, n);
    let kicks = if m > 8 { KICKS } else { 0 };
    let mut best = (MISSING, Vec::new());
    for start in 0..m {
        let lacks = climb.run(m, start, kicks, enough);
        if lacks < best.0 {
            best = (lacks, climb.at[..n].to_vec());
        }
        if lacks <= enough {
            break;
        }
    }
    (best.0 < MISSING).then(|| (T::of(best.0), best.1))
}

impl HillClimb {
    fn new<T: Number>(weights: &Weights<T>, edges: &[Edge], n: usize) -> Self {
        let mut lacks = [[MISSING; MOST_FREE]; MOST_FREE];
        for (v, (row, of)) in lacks.iter_mut().zip(&weights.of).enumerate() {
            row.iter_mut()
                .zip(of)
                .for_each(|(lacks, of)| *lacks = of.units().unwrap_or(MISSING).min(MISSING));
            row[v] = 0;
        }
        let mut near = vec![Vec::new(); n];
        for e in edges {
            near[e.a].push(e.b);
            near[e.b].push(e.a);
        }
        let (at, there) = (Vec::with_capacity(weights.of.len()), [[0; MOST_FREE]; MOST_FREE]);
        Self { lacks, near, at, there, next: 1 }
    }

    /// The ranks in breadth-first order, each on the vertex that lacks least to its placed neighbours.
    fn begin(&mut self, m: usize, start: usize) {
        let n = self.near.len();
        let mut at = vec![usize::MAX; n];
        let mut left = (1_u32 << m) - 1;
        let mut order: Vec<usize> = Vec::with_capacity(n);
        for rank in 0..n {
            if order.len() <= rank {
                order.extend((0..n).find(|r| !order.contains(r)));
            }
            let rank = order[rank];
            let worth = |v: usize| {
                let placed = self.near[rank].iter().filter(|r| at[**r] < m);
                (placed.map(|r| self.lacks[v][at[*r]]).sum::<u32>(), (v + m - start) % m)
            };
            let Some(v) = super::subsets::bits(left).min_by_key(|v| worth(*v)) else { break };
            at[rank] = v;
            left ^= 1 << v;
            for r in &self.near[rank] {
                if !order.contains(r) {
                    order.push(*r);
                }
            }
        }
        at.extend(super::subsets::bits(left));
        self.at = at;
        self.measure();
    }

    fn measure(&mut self) {
        self.there = [[0; MOST_FREE]; MOST_FREE];
        for (there, near) in self.there.iter_mut().zip(&self.near) {
            for to in near {
                there.iter_mut().zip(&self.lacks[self.at[*to]]).for_each(|(sum, lacks)| *sum += lacks);
            }
        }
    }

    fn run(&mut self, m: usize, start: usize, kicks: usize, enough: u32) -> u32 {
        self.begin(m, start);
        self.settle();
        let mut best = self.total();
        for _ in 0..kicks {
            if best <= enough {
                break;
            }
            let before = self.at.clone();
            for _ in 0..2 {
                self.next = self.next * 37 % 1009;
                let (a, b) = (self.next % self.near.len(), self.next / 16 % m);
                self.swap(a, b);
            }
            self.settle();
            let total = self.total();
            if total > best {
                self.at = before;
                self.measure();
            }
            best = best.min(total);
        }
        best
    }

    /// Makes changes until none helps.
    fn settle(&mut self) {
        for _ in 0..ROUNDS {
            if !self.better() {
                return;
            }
        }
    }

    fn total(&self) -> u32 {
        let of = |place: usize| self.there[place][self.at[place]];
        (0..self.near.len()).map(of).sum::<u32>() / 2
    }

    /// Exchanges what is on two places.
    fn swap(&mut self, a: usize, b: usize) {
        let (u, v) = (self.at[a], self.at[b]);
        self.at.swap(a, b);
        self.moved(a, u, v);
        self.moved(b, v, u);
    }

    /// Updates the places near one whose vertex changes.
    fn moved(&mut self, place: usize, from: usize, to: usize) {
        let Some(near) = self.near.get(place) else { return };
        for place in near {
            let change = self.lacks[from].iter().zip(&self.lacks[to]);
            let there = &mut self.there[*place];
            there.iter_mut().zip(change).for_each(|(sum, (from, to))| *sum = *sum + to - from);
        }
    }

    /// Makes every change of two places that helps, once.
    fn better(&mut self) -> bool {
        let mut changed = false;
        for a in 0..self.near.len() {
            for b in a + 1..self.at.len() {
                let (u, v) = (self.at[a], self.at[b]);
                let before = self.there[a][u] + self.there[b][v];
                let after = self.there[a][v] + self.there[b][u];
                if after >= before {
                    continue;
                }
                // Edges between them stay as they are, and are counted only before.
                let between = self.near[a].iter().map(|to| if *to == b { 2 * self.lacks[u][v] } else { 0 });
                if after + between.sum::<u32>() < before {
                    self.swap(a, b);
                    changed = true;
                }
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::super::number::Byte;
    use super::*;

    /// An edge list may name an edge twice.
    #[test]
    fn what_a_climb_finds_lacks_what_its_edges_lack() {
        let of = |a: usize, b: usize| Byte::of([0, 3, 5, 5][(a * b + a + b) % 4]);
        let lanes = |a: usize| std::array::from_fn(|b| if a == b || b > 8 { Byte::NONE } else { of(a, b) });
        let weights = Weights::new((0..9).map(lanes).collect());
        let edge = |(a, b)| Edge { a, b, weight: 1.0 };
        let ring = (0..7).map(|a| (a, (a + 1) % 7));
        for more in [vec![], vec![(0, 1), (1, 0)], vec![(0, 3), (3, 0), (0, 3), (2, 5)]] {
            let edges: Vec<Edge> = ring.clone().chain(more).map(edge).collect();
            let (lacks, order) = good(&weights, &edges, 7, None).unwrap();
            let each = edges.iter().map(|e| weights.of[order[e.a]][order[e.b]].units().unwrap());
            assert_eq!(lacks.units(), Some(each.sum()), "{edges:?}");
        }
    }
}
