//! Sets by the slowest edge of their best match, for patterns of which no table is made.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::fit::Ladder;
use super::general::{Budget, GraphPattern};
use super::policy::{Query, predict};
use super::ranking::{Lost, Ranking};
use super::space::{Space, subsets};

/// What a set could at best be worth, links that it takes from others, and its lowest GPUs first.
#[derive(PartialEq)]
struct Hope {
    worth: f64,
    lost: Reverse<Lost>,
    first: u32,
    /// There is such a match.
    is_met: bool,
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

/// The set whose match has the fastest slowest edge: sets are tried in the order of what they could be worth, and come
/// back with what they are; the first one that does is the best.
pub(super) fn by_slowest(
    query: &Query<'_>,
    pattern: &GraphPattern,
    space: &Space,
    ranking: &Ranking<'_>,
    budget: &mut Budget,
) -> Option<u32> {
    let all = (1_u32 << space.len()) - 1;
    let mut ladder = Ladder::new(pattern, space);
    // What no set has need not be refused for each.
    let top = ladder.fastest(all, 0, budget).map_or(0, |(rung, _)| rung);
    let hope = |mask: u32, slowest: f64, is_met: bool| {
        let worth = predict(query, space, slowest, mask);
        Hope { worth, lost: Reverse(ranking.lost(mask)), first: mask.reverse_bits(), is_met }
    };
    let fastest = ladder.rate(top)?;
    let mut hopes: BinaryHeap<Hope> =
        subsets(space.len(), query.n).map(|mask| hope(mask, fastest, false)).collect();
    // Without steps left any set will do.
    let mut found = hopes.peek().map(Hope::mask);
    while let Some(best) = hopes.pop() {
        let mask = best.mask();
        if best.is_met {
            found = Some(mask);
            break;
        }
        let met = ladder.fastest(mask, top, budget).and_then(|(rung, _)| ladder.rate(rung));
        hopes.extend(met.map(|slowest| hope(mask, slowest, true)));
    }
    if !ladder.is_sure {
        budget.0 = 0;
    }
    found
}
