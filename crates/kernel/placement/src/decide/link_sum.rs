//! The free set with the largest sum of links, used when MAPA's search has no answer (see `whole`).
//!
//! # Problem
//! Find the `n` free GPUs whose links to each other add up to most over all pairs. Sums are in whole
//! thousandths of GB/s, so that the order of adding cannot decide a tie.
//!
//! # Approach
//! Depth first over sets in lexicographic order; a branch is cut when even the best completion cannot beat the best
//! set so far. The bound counts for each remaining GPU its links to those taken plus half of its strongest links to
//! any others, and adds up the largest counts. If all links are equal (NVSwitch), the search ends after one set. At most [`MAX_STEPS`]
//! branches are entered: enough for every set of 16 GPUs (2^16); beyond that the best set so far is taken and
//! [`LargestSum::exact`] is false.
//!
//! # Ties
//! The set that comes first in lexicographic order.

use geometry::GpuIndex;
use topology::{GpuSet, HardwareGraph};

/// Most branches that one search enters.
pub const MAX_STEPS: u32 = 1 << 17;

/// Parameters of the search.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The GPUs to choose from.
    pub free: GpuSet,
    /// Number of GPUs of the set, from 1.
    pub n: usize,
    /// Links of the whole node.
    pub links: &'a HardwareGraph,
}

/// The set with the largest sum of links that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargestSum {
    /// GPUs, as many as were asked for.
    pub gpus: GpuSet,
    /// Sum of the links over all pairs, thousandths of GB/s.
    pub links_mb_s: u64,
    /// No set has a larger sum. False only if [`MAX_STEPS`] ended the search.
    pub exact: bool,
}

struct Search<'a> {
    gpus: &'a [GpuIndex],
    n: usize,
    /// Link of the `a`th and `b`th free GPU at `a * gpus.len() + b`.
    link: Vec<u64>,
    /// Half of the `r` strongest links of the `a`th free GPU, summed, at `a * n + r`.
    half_top: Vec<u64>,
    best: Option<(u64, u64)>,
    steps: u32,
}

/// Finds the best set; `None` if fewer than `n` GPUs are free or `n` is 0.
#[must_use]
pub fn best_set(question: &Question<'_>) -> Option<LargestSum> {
    let gpus: Vec<GpuIndex> = question.free.iter().collect();
    let n = question.n;
    if n == 0 || n > gpus.len() {
        return None;
    }
    let link: Vec<u64> =
        gpus.iter().flat_map(|a| gpus.iter().map(|b| mb_s(question.links, *a, *b))).collect();
    let half_top = half_top(&link, gpus.len(), n);
    let mut search = Search { gpus: &gpus, n, link, half_top, best: None, steps: 0 };
    let mut to_taken = vec![0; gpus.len() * n];
    search.extend(0, 0, 0, 0, &mut to_taken);
    let (links_mb_s, set) = search.best?;
    Some(LargestSum { gpus: GpuSet::from_bits(set), links_mb_s, exact: search.steps < MAX_STEPS })
}

/// Sum of the links over all pairs of a set, thousandths of GB/s.
pub(super) fn links_mb_s(gpus: GpuSet, links: &HardwareGraph) -> u64 {
    let pairs = gpus.iter().flat_map(|a| gpus.iter().filter(move |b| a < *b).map(move |b| (a, b)));
    pairs.map(|(a, b)| mb_s(links, a, b)).sum()
}

/// The bandwidth of a link, MB/s; 0 of a GPU to itself.
fn mb_s(links: &HardwareGraph, a: GpuIndex, b: GpuIndex) -> u64 {
    links.link(a, b).map_or(0, |link| link.mb_s.into())
}

fn half_top(link: &[u64], gpus: usize, n: usize) -> Vec<u64> {
    let mut row = Vec::with_capacity(gpus);
    let mut sums = Vec::with_capacity(gpus * n);
    for a in 0..gpus {
        row.clear();
        row.extend_from_slice(&link[a * gpus..(a + 1) * gpus]);
        row.sort_unstable_by(|x, y| y.cmp(x));
        let mut sum = 0;
        for strongest in row.iter().take(n) {
            sums.push(sum / 2 + sum % 2);
            sum += strongest;
        }
    }
    sums
}

impl Search<'_> {
    /// Extends a set of `taken` GPUs, bit mask `set`, links `sum`, by GPUs from the `from`th on. `to_taken` holds, per
    /// depth, each GPU's links to the set.
    fn extend(&mut self, from: usize, taken: usize, set: u64, sum: u64, to_taken: &mut [u64]) {
        if taken == self.n {
            if self.best.is_none_or(|(best, _)| sum > best) {
                self.best = Some((sum, set));
            }
            return;
        }
        let n_gpus = self.gpus.len();
        for v in from..=n_gpus - (self.n - taken) {
            if self.steps >= MAX_STEPS {
                return;
            }
            self.steps += 1;
            let at = taken * n_gpus;
            let sum = sum + to_taken[at + v];
            if taken + 1 < self.n {
                for w in v + 1..n_gpus {
                    to_taken[at + n_gpus + w] = to_taken[at + w] + self.link[v * n_gpus + w];
                }
                if self.best.is_some_and(|(best, _)| self.bound(v + 1, taken + 1, sum, to_taken) <= best) {
                    continue;
                }
            }
            self.extend(v + 1, taken + 1, set | 1 << self.gpus[v].0, sum, to_taken);
        }
    }

    /// An upper bound on the sum of any completion of the set.
    fn bound(&self, from: usize, taken: usize, sum: u64, to_taken: &[u64]) -> u64 {
        let missing = self.n - taken;
        let at = taken * self.gpus.len();
        let mut top = [0_u64; 64];
        let mut found = 0;
        for v in from..self.gpus.len() {
            let worth = to_taken[at + v] + self.half_top[v * self.n + missing - 1];
            let mut place = found.min(missing);
            while place > 0 && top[place - 1] < worth {
                if place < missing {
                    top[place] = top[place - 1];
                }
                place -= 1;
            }
            if place < missing {
                top[place] = worth;
                found = (found + 1).min(missing);
            }
        }
        sum + top[..missing].iter().sum::<u64>()
    }
}
