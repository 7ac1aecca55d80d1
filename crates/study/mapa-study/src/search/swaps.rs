//! Looks for a match with given counts of links by exchanging places.
//!
//! If many matches exist, this finds one in microseconds, so the exact search ([`equation2`](super::equation2)) tries it
//! first. Finding none proves nothing.

use super::budget::Budget;
use super::edge_graph::EdgeGraph;
use super::subsets::bits;
use crate::limits::MOST_FREE;

/// How often the search begins anew, and how often it then exchanges some places at random.
pub(super) type Effort = (usize, usize);

/// Takes microseconds if there are many matches, else milliseconds.
pub(super) const SHORT: Effort = (6, 12);
/// Takes about ten milliseconds for 16 vertices.
pub(super) const LONG: Effort = (16, 150);

/// Looks for matches of one pattern.
pub(super) struct Swaps<'a> {
    /// Class of each link: double, single, other.
    class: &'a [[u8; MOST_FREE]; MOST_FREE],
    /// Places that each place has an edge to.
    near: Vec<Vec<usize>>,
    /// Vertex of each place, then the ones that are not used.
    at: Vec<usize>,
    counts: [i32; 3],
    next: usize,
}

impl<'a> Swaps<'a> {
    pub(super) fn new(class: &'a [[u8; MOST_FREE]; MOST_FREE], pattern: &EdgeGraph) -> Self {
        let mut near: Vec<Vec<usize>> = Vec::new();
        while let Some(back) = pattern.back(near.len()) {
            let place = near.len();
            near.push(Vec::new());
            for (to, ..) in back {
                near[place].push(*to);
                near[*to].push(place);
            }
        }
        Self { class, near, at: Vec::new(), counts: [0; 3], next: 1 }
    }

    /// The vertex of each place of a match on this set with these counts, if one is found. A round of exchanges takes as
    /// long as a step per place, and counts so.
    pub(super) fn find(
        &mut self,
        set: u32,
        counts: [usize; 3],
        (starts, kicks): Effort,
        budget: &mut Budget,
    ) -> Option<&[usize]> {
        let steps = u32::try_from(self.near.len()).unwrap_or(u32::MAX);
        let wanted = counts.map(|c| i32::try_from(c).unwrap_or(i32::MAX));
        let m = set.count_ones() as usize;
        for start in 0..starts {
            self.at = bits(set).collect();
            self.at.rotate_left(start * m / starts);
            self.count();
            for _ in 0..kicks {
                let mut changed = true;
                while changed {
                    if budget.0 < steps {
                        budget.0 = 0;
                        return None;
                    }
                    budget.0 -= steps;
                    changed = self.closer(wanted);
                }
                if self.counts == wanted {
                    return Some(&self.at[..self.near.len()]);
                }
                for _ in 0..3 {
                    self.next = self.next * 37 % 1009;
                    let (a, b) = (self.next % self.near.len(), self.next / 16 % m);
                    self.at.swap(a, b);
                }
                self.count();
            }
        }
        None
    }

    fn count(&mut self) {
        self.counts = [0; 3];
        for (a, near) in self.near.iter().enumerate() {
            for b in near.iter().filter(|b| **b < a) {
                self.counts[usize::from(self.class[self.at[a]][self.at[*b]])] += 1;
            }
        }
    }

    /// Adds the edges of a place, as if vertex `v` were there, without those to place `but`.
    fn add(&self, counts: &mut [i32; 3], place: usize, v: usize, but: usize, sign: i32) {
        let Some(near) = self.near.get(place) else { return };
        for to in near.iter().filter(|to| **to != but) {
            counts[usize::from(self.class[v][self.at[*to]])] += sign;
        }
    }

    /// Makes every exchange that brings the counts closer, once.
    fn closer(&mut self, wanted: [i32; 3]) -> bool {
        let far = |c: [i32; 3]| (0..3).map(|i| (c[i] - wanted[i]).abs()).sum::<i32>();
        let mut changed = false;
        for a in 0..self.near.len() {
            for b in a + 1..self.at.len() {
                let (u, v) = (self.at[a], self.at[b]);
                let mut counts = self.counts;
                self.add(&mut counts, a, u, b, -1);
                self.add(&mut counts, b, v, a, -1);
                self.add(&mut counts, a, v, b, 1);
                self.add(&mut counts, b, u, a, 1);
                if far(counts) < far(self.counts) {
                    self.at.swap(a, b);
                    self.counts = counts;
                    changed = true;
                }
            }
        }
        changed
    }
}
