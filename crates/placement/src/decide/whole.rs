//! Whole GPUs: the free set with the largest sum of links.
//!
//! # Problem
//! Of the free GPUs, the `n` whose links to each other, over all pairs, add up to most. Sums are in whole
//! thousandths of GB/s, so that the order of adding cannot decide a tie.
//!
//! # Approach
//! Depth first over sets in lexicographic order; a branch is cut when even the best completion cannot beat the best
//! set so far. The bound gives each remaining GPU its links to those taken plus half of its strongest links to
//! any others, and adds up the best. Equal links everywhere (NVSwitch) end after one set. At most [`MAX_STEPS`]
//! branches are entered: enough for every set of 16 GPUs (2^16); beyond that the best set so far is taken and
//! [`Match::exact`] is false.
//!
//! # Ties
//! The set that comes first in lexicographic order.
//!
//! # Place of topology matching
//! [`Question`] carries the job's pattern and its bandwidth sensitivity. They do not matter yet: matching the
//! pattern's edges into the hardware graph (MAPA, SC'21) takes the place of [`best_set`] behind the same question.

use super::mps::blocker;
use super::view::View;
use crate::ask::{Ask, GpuSet, Kind};
use crate::ids::GpuIndex;
use crate::report::{Candidate, Constraint, GPU_PARTS, Report, Takes, Verdict};
use crate::request::{Bandwidth, Pattern};
use crate::state::{LinkMatrix, MigPolicy};

/// Most branches one search enters.
pub const MAX_STEPS: u32 = 1 << 17;

/// Which GPUs to choose from, and for what.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Free GPUs.
    pub free: GpuSet,
    /// How many are wanted, from 1.
    pub n: usize,
    /// Links of the whole node.
    pub links: &'a LinkMatrix,
    /// How the job's processes talk to each other.
    pub pattern: Option<&'a Pattern>,
    /// Whether it matters.
    pub bandwidth: Option<Bandwidth>,
}

/// A set of whole GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Which.
    pub gpus: GpuSet,
    /// Sum of the links over all pairs, thousandths of GB/s.
    pub links_mbps: u64,
    /// No set has a larger sum. False only where [`MAX_STEPS`] ended the search.
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

/// Finds the best set, or `None` where fewer than `n` GPUs are free or `n` is 0.
#[must_use]
pub fn best_set(question: &Question<'_>) -> Option<Match> {
    let gpus: Vec<GpuIndex> = question.free.iter().collect();
    let n = question.n;
    if n == 0 || n > gpus.len() {
        return None;
    }
    let link: Vec<u64> =
        gpus.iter().flat_map(|a| gpus.iter().map(|b| mbps(question.links.bw_gbps(*a, *b)))).collect();
    let half_top = half_top(&link, gpus.len(), n);
    let mut search = Search { gpus: &gpus, n, link, half_top, best: None, steps: 0 };
    let mut to_taken = vec![0; gpus.len() * n];
    search.extend(0, 0, 0, 0, &mut to_taken);
    let (links_mbps, set) = search.best?;
    Some(Match { gpus: GpuSet::from_bits(set), links_mbps, exact: search.steps < MAX_STEPS })
}

/// GB/s as whole thousandths.
fn mbps(gbps: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "LinkMatrix is finite and >= 0; saturates"
    )]
    let thousandths = (gbps * 1000.0).round() as u64;
    // Far above any link, and small enough that sums over all pairs of 64 GPUs cannot overflow.
    thousandths.min(u64::from(u32::MAX))
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

    /// No completion of the set has a larger sum than this.
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

/// What the search found.
pub(super) struct Found {
    pub(super) gpus: Vec<GpuIndex>,
    pub(super) takes: Takes,
    pub(super) verdict: Verdict,
}

/// Finds whole GPUs for a job, each with at least `mem_mib`.
pub(super) fn search(
    views: &[View<'_>],
    links: &LinkMatrix,
    ask: &Ask,
    mem_mib: u64,
    report: &mut Report,
) -> Option<Found> {
    let mut free = GpuSet::EMPTY;
    for view in views {
        match ruled_out(view, ask, mem_mib) {
            None => free.insert(view.gpu),
            Some(constraint) => report.push(Candidate {
                kind: Kind::Whole,
                gpu: view.gpu,
                instances: None,
                verdict: Verdict::Ruled(constraint),
            }),
        }
    }
    let n = usize::try_from(ask.request.gpus.unwrap_or(1)).unwrap_or(usize::MAX);
    let question =
        Question { free, n, links, pattern: ask.request.pattern.as_ref(), bandwidth: ask.request.bandwidth };
    let free_count = u32::try_from(free.len()).unwrap_or(u32::MAX);
    let Some(best) = best_set(&question) else {
        for gpu in free.iter() {
            let verdict = Verdict::Ruled(Constraint::FitsOnly(free_count));
            report.push(Candidate { kind: Kind::Whole, gpu, instances: None, verdict });
        }
        return None;
    };
    report.inexact |= !best.exact;
    let gpus: Vec<GpuIndex> = best.gpus.iter().collect();
    let verdict = Verdict::Links { mbps: best.links_mbps, set: best.gpus.bits(), free: free_count };
    report.push(Candidate { kind: Kind::Whole, gpu: *gpus.first()?, instances: None, verdict });
    let units =
        gpus.iter().filter_map(|g| views.get(usize::from(g.0))).map(|v| u32::from(v.model.placement_units));
    let units = units.sum();
    let parts = u32::try_from(gpus.len()).unwrap_or(u32::MAX).saturating_mul(GPU_PARTS);
    Some(Found { gpus, takes: Takes { oversubscribed: false, parts, units, of_units: units }, verdict })
}

fn ruled_out(view: &View<'_>, ask: &Ask, mem_mib: u64) -> Option<Constraint> {
    if !ask.permits(view.gpu) {
        return Some(Constraint::NotOffered);
    }
    if let Some(taken) = blocker(view) {
        return Some(taken);
    }
    if view.policy == MigPolicy::On {
        return Some(Constraint::MigAlways);
    }
    let has = view.model.usable_mib();
    (has < mem_mib).then_some(Constraint::TooLittleMemory { need: mem_mib, has })
}
