//! Sets by what they are worth, and what breaks ties.
//!
//! Of sets that tie, the one wins that takes fewest links from the other free GPUs; then from those with the GPUs that
//! come back next; then from all others of the node; then the lowest. What is free is soon given away, and a set's
//! links are worth most to a job that starts on what it leaves and what the next job gives back.

use super::policy::{NoChoice, Query};
use super::space::{Space, bits, subsets};
use geometry::GpuIndex;
use topology::GpuSet;

/// What is known of a set's best order, where sets were ranked by that.
#[derive(Default)]
pub(super) struct Known {
    /// The order itself.
    pub(super) order: Option<Vec<GpuIndex>>,
    pub(super) slowest_mbps: Option<u32>,
    pub(super) sum_mbps: Option<i64>,
}

/// A set that won.
pub(super) struct Found {
    pub(super) mask: u32,
    pub(super) tied: Option<u64>,
    pub(super) known: Known,
}

/// What a set takes of links worth keeping, thousandths of GB/s, what matters most first: of those among the free GPUs,
/// of those to the GPUs that come back next, of those to every GPU that is not free.
pub(super) type Lost = [u64; 3];

/// Sets ranked by one number, then by what they take from others, then the lowest GPUs.
pub(super) struct Ranking<'a> {
    space: &'a Space,
    /// By vertex: its links to all free GPUs, to those that come back next, and to all that are not free.
    links: Vec<Lost>,
    pub(super) best: Option<(f64, Lost, u32)>,
    tied: u64,
}

impl<'a> Ranking<'a> {
    pub(super) fn new(space: &'a Space, query: &Query<'_>) -> Self {
        let all = (1_u32 << space.len()) - 1;
        let taken = taken(query, space.gpus.iter().copied().collect());
        let links = space.gpus.iter().enumerate().map(|(v, gpu)| {
            let [next, rest] = taken.map(|set| query.graph.kept_to(*gpu, set));
            [u64::from(space.kept_to_set(v, all)), next, rest]
        });
        Self { space, links: links.collect(), best: None, tied: 0 }
    }

    pub(super) fn lost(&self, mask: u32) -> Lost {
        let mut lost = [0; 3];
        for v in bits(mask) {
            lost.iter_mut().zip(self.links[v]).for_each(|(sum, links)| *sum += links);
        }
        // Links among the set were counted from both ends.
        lost[0] -= u64::from(self.space.kept_among(mask));
        lost
    }

    pub(super) fn offer(&mut self, worth: f64, mask: u32) {
        let (ahead, tie) = match self.best {
            None => (true, false),
            Some((best, ..)) => (worth > best, worth >= best),
        };
        if !ahead && !tie {
            return;
        }
        self.tied = if ahead { 1 } else { self.tied + 1 };
        let lost = self.lost(mask);
        let first = |a: u32, b: u32| a.reverse_bits() > b.reverse_bits();
        let wins = self.best.is_none_or(|(_, l, m)| ahead || lost < l || (lost == l && first(mask, m)));
        if wins {
            self.best = Some((worth, lost, mask));
        }
    }

    /// Every set of `n` in the order in which ties are broken.
    pub(super) fn ordered(&self, n: usize) -> Vec<u32> {
        let key = |mask: u32| (self.lost(mask), u32::MAX - mask.reverse_bits());
        let mut sets: Vec<((Lost, u32), u32)> =
            subsets(self.space.len(), n).map(|mask| (key(mask), mask)).collect();
        sets.sort_unstable();
        sets.into_iter().map(|(_, mask)| mask).collect()
    }

    pub(super) fn winner(&self) -> Result<Found, NoChoice> {
        let found = |(_, _, mask)| Found { mask, tied: Some(self.tied), known: Known::default() };
        self.best.map(found).ok_or(NoChoice::Nothing)
    }
}

/// The GPUs that are not free: those that come back next, and all of them.
fn taken(query: &Query<'_>, free: GpuSet) -> [GpuSet; 2] {
    let taken = GpuSet::from_bits(query.graph.all().bits() & !free.bits());
    [query.next.and(taken), taken]
}

/// Of free GPUs whose links to each other are alike, the `n` whose links to others are missed least, ascending.
pub(super) fn least_missed(query: &Query<'_>, free: GpuSet) -> Vec<GpuIndex> {
    let taken = taken(query, free);
    let mut gpus: Vec<GpuIndex> = free.iter().collect();
    gpus.sort_by_key(|gpu| taken.map(|set| query.graph.kept_to(*gpu, set)));
    gpus.truncate(query.n);
    gpus.sort_unstable();
    gpus
}
