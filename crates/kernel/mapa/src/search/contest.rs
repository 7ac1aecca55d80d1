//! A contest of sets: the best by one number wins, and what it takes from other jobs breaks ties.
//!
//! Of sets that tie, the winner takes the fewest links from the other free GPUs; then from those together with the
//! GPUs that come back next; then from all other GPUs of the node; then it has the lowest GPUs. What is free is soon
//! given away, and the next job starts on what this one leaves and on what the first jobs to end give back.

use std::cmp::Reverse;

use geometry::GpuIndex;
use topology::GpuSet;

use super::space::Space;
use super::subsets::{bits, subsets};
use crate::query::Query;

/// Findings of a search for the best set about that set's best order.
#[derive(Default)]
pub(crate) struct KnownOrder {
    /// The order itself.
    pub(crate) order: Option<Vec<GpuIndex>>,
    /// Rate of its slowest edge: MB/s over the edge's share of the heaviest one's weight.
    pub(crate) slowest: Option<f64>,
}

/// The set that won.
pub(crate) struct Winner {
    /// Vertices as a bit mask.
    pub(crate) mask: u32,
    /// Sets that are worth as much, itself included; `None` where they were not counted.
    pub(crate) tied: Option<u64>,
    pub(crate) known: KnownOrder,
    /// Nothing is better.
    pub(crate) is_proven: bool,
}

/// Bandwidth worth keeping that a set takes from others, MB/s, what matters most first: of its links to the other free
/// GPUs, of those to the GPUs that come back next, of those to every GPU that is not free.
pub(crate) type LinksTaken = [u64; 3];

/// Value that breaks ties among sets: the larger one wins. A set's mask is the second number's bits reversed.
pub(super) type Preference = (Reverse<LinksTaken>, u32);

/// The sets of `query.n` of the free GPUs.
pub(crate) struct Contest<'a> {
    pub(crate) query: &'a Query<'a>,
    pub(crate) space: &'a Space,
    /// By vertex: its links to all free GPUs, to those that come back next, and to all that are not free.
    links: Vec<LinksTaken>,
}

impl<'a> Contest<'a> {
    pub(crate) fn new(space: &'a Space, query: &'a Query<'a>) -> Self {
        let all = (1_u32 << space.len()) - 1;
        let not_free = not_free(query, space.gpus.iter().copied().collect());
        let links = space.gpus.iter().enumerate().map(|(v, gpu)| {
            let [next, rest] = not_free.map(|set| query.graph.kept_to(*gpu, set));
            [u64::from(space.kept_to_set(v, all)), next, rest]
        });
        Self { query, space, links: links.collect() }
    }

    /// Every set of `query.n` vertices, ascending.
    #[inline]
    pub(crate) fn sets(&self) -> impl Iterator<Item = u32> + use<> {
        subsets(self.space.len(), self.query.n)
    }

    /// Gives the value that breaks ties: the larger of two sets wins.
    #[inline]
    pub(super) fn preference(&self, mask: u32) -> Preference {
        (Reverse(self.taken(mask)), mask.reverse_bits())
    }

    /// The set that ties prefer: all are worth as much.
    pub(crate) fn any(&self) -> Winner {
        let best = self.sets().map(|mask| self.preference(mask)).max();
        let mask = best.map_or(0, |(_, reversed)| reversed.reverse_bits());
        let tied = Some(self.sets().count() as u64);
        Winner { mask, tied, known: KnownOrder::default(), is_proven: true }
    }

    /// Counts the links that a set takes from others.
    #[inline]
    pub(crate) fn taken(&self, mask: u32) -> LinksTaken {
        let mut taken = [0; 3];
        for v in bits(mask) {
            taken.iter_mut().zip(self.links[v]).for_each(|(sum, links)| *sum += links);
        }
        // Links among the set were counted from both ends.
        taken[0] -= u64::from(self.space.kept_among(mask));
        taken
    }
}

/// The GPUs that are not free: those that come back next, and all of them.
fn not_free(query: &Query<'_>, free: GpuSet) -> [GpuSet; 2] {
    let rest = GpuSet::from_bits(query.graph.all().bits() & !free.bits());
    [query.next.and(rest), rest]
}

/// Picks, among free GPUs with equal links to each other, the `n` with the least bandwidth to GPUs that are not free,
/// ascending.
pub(crate) fn least_missed(query: &Query<'_>, free: GpuSet) -> Vec<GpuIndex> {
    let not_free = not_free(query, free);
    let mut gpus: Vec<GpuIndex> = free.iter().collect();
    gpus.sort_by_key(|gpu| not_free.map(|set| query.graph.kept_to(*gpu, set)));
    gpus.truncate(query.n);
    gpus.sort_unstable();
    gpus
}
