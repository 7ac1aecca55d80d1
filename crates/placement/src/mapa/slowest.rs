//! Sets by the slowest edge of their best match, for patterns of which no table is made.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::fit::{Fit, Fits, ladder};
use super::general::{Budget, GraphPattern};
use super::policy::{Query, predict};
use super::ranking::{Lost, Ranking};
use super::space::{Space, subsets};

/// What a set could at best be worth, links that it takes from others, its lowest GPUs first, and how far down the
/// ladder its slowest edge is then.
#[derive(PartialEq)]
struct Hope {
    worth: f64,
    lost: Reverse<Lost>,
    first: u32,
    rung: usize,
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

/// The set whose match has the fastest slowest edge: sets are tried in the order of what they could be worth, each
/// with the fastest links that it has not been refused for, and the first one that the pattern fits on is the best.
pub(super) fn by_slowest(
    query: &Query<'_>,
    pattern: &GraphPattern,
    space: &Space,
    ranking: &Ranking<'_>,
    budget: &mut Budget,
) -> Option<u32> {
    let all = (1_u32 << space.len()) - 1;
    let ladder = ladder(pattern, space);
    let fits: Vec<Fit> = ladder.iter().map(|slowest| Fit::new(pattern, space, *slowest)).collect();
    let mut is_sure = true;
    let mut is_on = |rung: usize, mask: u32, budget: &mut Budget| {
        let fits = fits.get(rung).map_or(Fits::Unsure, |fit: &Fit| fit.on(mask, budget));
        is_sure &= !matches!(fits, Fits::Unsure);
        matches!(fits, Fits::Yes(_))
    };
    // What no set has need not be refused for each.
    let top = (0..ladder.len()).find(|rung| is_on(*rung, all, budget)).unwrap_or(0);
    let hope = |mask: u32, rung: usize| {
        let worth = ladder.get(rung).map(|slowest| predict(query, space, *slowest, mask))?;
        Some(Hope { worth, lost: Reverse(ranking.lost(mask)), first: mask.reverse_bits(), rung })
    };
    let mut hopes: BinaryHeap<Hope> =
        subsets(space.len(), query.n).filter_map(|mask| hope(mask, top)).collect();
    let mut found = None;
    while let Some(best) = hopes.pop() {
        let mask = best.mask();
        // Without steps left any set will do.
        if is_on(best.rung, mask, budget) || budget.0 <= 1 {
            found = Some(mask);
            break;
        }
        hopes.extend(hope(mask, best.rung + 1));
    }
    if !is_sure {
        budget.0 = 0;
    }
    found
}
