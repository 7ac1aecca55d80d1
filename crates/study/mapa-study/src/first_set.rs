//! The first of the sets that tie, as MAPA's program takes it.

use std::collections::HashMap;

use geometry::GpuIndex;
use mapa::{Match, Query};
use topology::GpuSet;

use crate::exact::choose;
use crate::search::{bits, subsets};

/// Answers by free GPUs, number of GPUs and pattern.
#[derive(Default)]
pub(crate) struct FirstSets(HashMap<(u64, usize, String), Option<Match>>);

impl FirstSets {
    /// Chooses the set with the largest AggBW; of several, the one whose GPUs' numbers are lowest, read from the left.
    pub(crate) fn choose(&mut self, query: &Query<'_>) -> Option<Match> {
        let key = (query.free.bits(), query.n, format!("{:?}", query.pattern));
        self.0.entry(key).or_insert_with(|| first(query)).clone()
    }
}

fn first(query: &Query<'_>) -> Option<Match> {
    let free: Vec<GpuIndex> = query.free.iter().collect();
    if query.n == 0 || free.len() < query.n {
        return None;
    }
    let mut sets: Vec<Vec<usize>> = subsets(free.len(), query.n).map(|mask| bits(mask).collect()).collect();
    sets.sort_unstable();
    let mut best: Option<Match> = None;
    for set in sets {
        let set: GpuSet = set.into_iter().map(|at| free[at]).collect();
        let Ok(mut one) = choose(&Query { free: set, ..*query }) else { continue };
        one.preserved_bw = query.graph.preserved_bw(rest(query.free, set));
        let more = best.as_ref().is_none_or(|best| one.scores.agg_bw > best.scores.agg_bw + 1e-9);
        best = if more { Some(one) } else { best };
    }
    best
}

fn rest(free: GpuSet, taken: GpuSet) -> GpuSet {
    GpuSet::from_bits(free.bits() & !taken.bits())
}
