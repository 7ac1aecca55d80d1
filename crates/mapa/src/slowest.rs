//! Sets by the slowest edge of their best match.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::fit::Ladder;
use super::general::{Budget, GraphPattern};
use super::policy::{Query, predict};
use super::ranking::{Lost, Ranking};
use super::space::{Space, subsets};
use super::tables::Tables;

/// What a set is worth, or could at best be, links that it takes from others, and its lowest GPUs first.
#[derive(PartialEq)]
struct Hope {
    worth: f64,
    lost: Reverse<Lost>,
    first: u32,
}

impl Hope {
    fn mask(&self) -> u32 {
        self.first.reverse_bits()
    }
}

impl Eq for Hope {}

impl PartialOrd for Hope {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Hope {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |hope: &Self| (hope.lost, hope.first);
        self.worth.total_cmp(&other.worth).then_with(|| key(self).cmp(&key(other)))
    }
}

/// The best set.
pub(super) struct Slowest {
    pub(super) mask: u32,
    /// How fast the slowest edge of its match is, thousandths of GB/s over the edge's share of the heaviest one's
    /// weight; `None` where the steps were used up.
    pub(super) mbps: Option<f64>,
    /// Sets that are worth as much, this one included, where it was easy to count them.
    pub(super) tied: Option<u64>,
}

/// The set whose match has the fastest slowest edge. Sets are tried in the order of what they could be worth, until none
/// that is left can be better; each has to fit first on the slowest links that would do.
///
/// `tables`: for patterns that have them; then few ties are counted.
pub(super) fn by_slowest(
    query: &Query<'_>,
    pattern: &GraphPattern,
    (space, ranking): (&Space, &Ranking<'_>),
    tables: Option<Tables<'_>>,
    budget: &mut Budget,
) -> Option<Slowest> {
    let all = (1_u32 << space.len()) - 1;
    let may_count = tables.is_some();
    let mut ladder = Ladder::new(pattern, space).with_tables(tables);
    // What no set has need not be refused for each.
    let top = ladder.fastest(all, 0..ladder.len(), budget).unwrap_or(0);
    let hope = |mask: u32, slowest: f64| {
        let worth = predict(query, space, slowest, mask);
        Hope { worth, lost: Reverse(ranking.lost(mask)), first: mask.reverse_bits() }
    };
    let fastest = ladder.rate(top)?;
    let mut hopes: BinaryHeap<Hope> = subsets(space.len(), query.n).map(|mask| hope(mask, fastest)).collect();
    // Without steps left any set will do.
    let any = hopes.peek().map(|hope| Slowest { mask: hope.mask(), mbps: None, tied: None });
    let mut best: Option<(Hope, f64)> = None;
    let mut tied = 0;
    while let Some(could) = hopes.pop() {
        if best.as_ref().is_some_and(|(best, _)| could < *best) {
            hopes.push(could);
            break;
        }
        let mask = could.mask();
        let least = best.as_ref().map_or(f64::NEG_INFINITY, |(best, _)| best.worth);
        let enough = ladder.end(top, |slowest| predict(query, space, slowest, mask) >= least);
        let Some(rung) = ladder.fastest(mask, top..enough, budget) else { continue };
        let slowest = ladder.rate(rung)?;
        let is = hope(mask, slowest);
        tied = if is.worth > least { 1 } else { tied + 1 };
        if best.as_ref().is_none_or(|(best, _)| is > *best) {
            best = Some((is, slowest));
        }
    }
    let Some((best, mbps)) = best else {
        budget.0 = 0;
        return any;
    };
    // None of these can be worth more.
    let level = |could: &&Hope| could.worth >= best.worth;
    let tied = (may_count && hopes.iter().filter(level).count() <= MOST_COUNTED).then(|| {
        let is_tied = |could: &&Hope| {
            let end = ladder.end(top, |slowest| predict(query, space, slowest, could.mask()) >= best.worth);
            end > top && ladder.is_on(end - 1, could.mask(), budget)
        };
        tied + hopes.iter().filter(level).filter(is_tied).count() as u64
    });
    ladder.own_up(budget);
    Some(Slowest { mask: best.mask(), mbps: Some(mbps), tied })
}

/// Where more sets may be as good, they are not counted.
const MOST_COUNTED: usize = 128;
