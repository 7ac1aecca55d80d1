//! Counts the sets that are as good as the chosen one, for answers whose decision did not count them.

use crate::exact::choose;
use crate::limits::MOST_FREE;
use crate::search::{bits, subsets};
use geometry::GpuIndex;
use mapa::{Match, Query};
use topology::{GpuSet, Selection};

/// The number of sets that the policy rates as high as `choice`, itself included. Searches every set by itself.
///
/// Takes up to a second if 8 of 16 GPUs are chosen. Answers 1 for more than 16 free GPUs.
#[must_use]
pub fn count_ties(query: &Query<'_>, choice: &Match) -> u64 {
    let free: Vec<GpuIndex> = query.free.iter().collect();
    if free.len() > MOST_FREE {
        return 1;
    }
    let worth = |c: &Match| match query.policy {
        Selection::Preserve => c.scores.eff_bw.unwrap_or(0.0),
        _ => c.scores.agg_bw,
    };
    let best = worth(choice);
    let ties = subsets(free.len(), query.n).filter(|mask| {
        let set: GpuSet = bits(*mask).map(|v| free[v]).collect();
        choose(&Query { free: set, ..*query }).is_ok_and(|c| worth(&c) >= best - 1e-9)
    });
    ties.count() as u64
}
