//! A good match, fast: what the exact searches measure their partial sums against.
//!
//! # Algorithm
//! From each vertex a match is begun that takes the best next vertex for each rank; then ranks change places with each
//! other or with free vertices while that makes the sum better. Nothing here decides: a worse start only makes the
//! exact search that follows slower.

use super::number::{Number, Weights};
use super::pattern::Edge;
use super::space::MOST_FREE;

/// What a missing link counts, units: more than a match of any links lacks.
const MISSING: u32 = 1 << 26;

/// A pattern and what its edges lack, in units.
struct Climb {
    lacks: [[u32; MOST_FREE]; MOST_FREE],
    near: Vec<Vec<usize>>,
    /// Vertex of each rank, then the free ones.
    at: Vec<usize>,
    /// Chooses the places that a kick exchanges: always the same ones.
    next: usize,
}

/// Times that a climb goes on from where it ended, with some places exchanged.
const KICKS: usize = 8;

/// What a good match of `n` ranks lacks; [`Number::NONE`] where none was found.
pub(super) fn limit<T: Number>(weights: &Weights<T>, edges: &[Edge], n: usize) -> T {
    good(weights, edges, n).map_or(T::NONE, |(lacks, _)| lacks)
}

/// A good match of `n` ranks: what it lacks, and the vertex of each rank.
pub(super) fn good<T: Number>(weights: &Weights<T>, edges: &[Edge], n: usize) -> Option<(T, Vec<usize>)> {
    let m = weights.of.len();
    let mut lacks = [[MISSING; MOST_FREE]; MOST_FREE];
    for (row, of) in lacks.iter_mut().zip(&weights.of) {
        row.iter_mut().zip(of).for_each(|(lacks, of)| *lacks = of.units().unwrap_or(MISSING));
    }
    let mut near = vec![Vec::new(); n];
    for e in edges {
        near[e.a].push(e.b);
        near[e.b].push(e.a);
    }
    let mut climb = Climb { lacks, near, at: Vec::with_capacity(m), next: 1 };
    let kicks = if m > 8 { KICKS } else { 0 };
    let mut best = (MISSING, Vec::new());
    for start in 0..m {
        let lacks = climb.run(m, start, kicks);
        if lacks < best.0 {
            best = (lacks, climb.at[..n].to_vec());
        }
    }
    (best.0 < MISSING).then(|| (T::of(best.0), best.1))
}

impl Climb {
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
            let Some(v) = super::space::bits(left).min_by_key(|v| worth(*v)) else { break };
            at[rank] = v;
            left ^= 1 << v;
            for r in &self.near[rank] {
                if !order.contains(r) {
                    order.push(*r);
                }
            }
        }
        at.extend(super::space::bits(left));
        self.at = at;
    }

    fn run(&mut self, m: usize, start: usize, kicks: usize) -> u32 {
        self.begin(m, start);
        while self.better() {}
        let mut best = self.total();
        for _ in 0..kicks {
            let before = self.at.clone();
            for _ in 0..2 {
                self.next = self.next * 37 % 1009;
                let (a, b) = (self.next % self.near.len(), self.next / 16 % m);
                self.at.swap(a, b);
            }
            while self.better() {}
            let total = self.total();
            if total > best {
                self.at = before;
            }
            best = best.min(total);
        }
        best
    }

    fn total(&self) -> u32 {
        let of = |r: usize| self.near[r].iter().map(|s| self.lacks[self.at[r]][self.at[*s]]).sum::<u32>();
        (0..self.near.len()).map(of).sum::<u32>() / 2
    }

    /// What the edges of a place lack if vertex `v` were there, without those to place `but`.
    fn lacking(&self, place: usize, v: usize, but: usize) -> u32 {
        let Some(near) = self.near.get(place) else { return 0 };
        near.iter().filter(|s| **s != but).map(|s| self.lacks[v][self.at[*s]]).sum()
    }

    /// Makes every change of two places that helps, once.
    fn better(&mut self) -> bool {
        let mut changed = false;
        for a in 0..self.near.len() {
            for b in a + 1..self.at.len() {
                let (u, v) = (self.at[a], self.at[b]);
                let before = self.lacking(a, u, b) + self.lacking(b, v, a);
                let after = self.lacking(a, v, b) + self.lacking(b, u, a);
                if after < before {
                    self.at.swap(a, b);
                    changed = true;
                }
            }
        }
        changed
    }
}
