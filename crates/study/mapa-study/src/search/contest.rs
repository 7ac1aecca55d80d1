//! A contest of sets: the best by one number wins, and what it takes from other jobs breaks ties.
//!
//! Of sets that tie, the winner takes the fewest links from the other free GPUs; then from those together with the
//! GPUs that come back next; then from all other GPUs of the node; then it has the lowest GPUs. What is free is soon
//! given away, and the next job starts on what this one leaves and on what the first jobs to end give back.

use geometry::GpuIndex;
use topology::GpuSet;

use super::set_positions::POSITIONS;
use super::space::Space;
use super::subsets::{bits, subsets};
use crate::unanswered::Unanswered;
use mapa::{NoMatch, Query};

/// Facts about a set's best order that a search for the best set already found out.
#[derive(Default)]
pub(crate) struct KnownOrder {
    /// The order itself.
    pub(crate) order: Option<Vec<GpuIndex>>,
    /// Bandwidth of its slowest edge.
    pub(crate) slowest_mb_s: Option<u32>,
    /// Sum over its edges.
    pub(crate) sum_mb_s: Option<i64>,
}

/// The set that won.
pub(crate) struct Winner {
    /// Vertices as a bit mask.
    pub(crate) mask: u32,
    /// Sets that are worth as much, itself included; `None` where they were not counted.
    pub(crate) tied: Option<u64>,
    pub(crate) known: KnownOrder,
}

/// Bandwidth worth keeping that a set takes from others, MB/s, what matters most first: of its links to the other free
/// GPUs, of those to the GPUs that come back next, of those to every GPU that is not free.
pub(crate) type LinksTaken = [u64; 3];

/// The sets of `query.n` of the free GPUs, and the best of those that were offered.
pub(crate) struct Contest<'a> {
    pub(crate) query: &'a Query<'a>,
    pub(crate) space: &'a Space,
    /// By vertex: its links to all free GPUs, to those that come back next, and to all that are not free.
    links: Vec<LinksTaken>,
    best: Option<(f64, LinksTaken, u32)>,
    tied: u64,
}

impl<'a> Contest<'a> {
    pub(crate) fn new(space: &'a Space, query: &'a Query<'a>) -> Self {
        let all = (1_u32 << space.len()) - 1;
        let not_free = not_free(query, space.gpus.iter().copied().collect());
        let links = space.gpus.iter().enumerate().map(|(v, gpu)| {
            let [next, rest] = not_free.map(|set| query.graph.kept_to(*gpu, set));
            [u64::from(space.kept_to_set(v, all)), next, rest]
        });
        Self { query, space, links: links.collect(), best: None, tied: 0 }
    }

    /// Every set of `query.n` vertices, ascending.
    #[inline]
    pub(crate) fn sets(&self) -> impl Iterator<Item = u32> + use<> {
        subsets(self.space.len(), self.query.n)
    }

    /// Lists those sets in the order in which ties are broken.
    pub(super) fn ordered(&self) -> Vec<u32> {
        let key = |mask: u32| (self.taken(mask), u32::MAX - mask.reverse_bits());
        let mut sets: Vec<((LinksTaken, u32), u32)> = self.sets().map(|mask| (key(mask), mask)).collect();
        sets.sort_unstable();
        sets.into_iter().map(|(_, mask)| mask).collect()
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

    #[inline]
    pub(super) fn offer(&mut self, worth: f64, mask: u32) {
        let (ahead, tie) = match self.best {
            None => (true, false),
            Some((best, ..)) => (worth > best, worth >= best),
        };
        if !ahead && !tie {
            return;
        }
        self.tied = if ahead { 1 } else { self.tied + 1 };
        let taken = self.taken(mask);
        let first = |a: u32, b: u32| a.reverse_bits() > b.reverse_bits();
        let wins = self.best.is_none_or(|(_, t, m)| ahead || taken < t || (taken == t && first(mask, m)));
        if wins {
            self.best = Some((worth, taken, mask));
        }
    }

    /// Worth of the best set so far.
    pub(super) fn best_worth(&self) -> Option<f64> {
        self.best.map(|(worth, ..)| worth)
    }

    /// The best set of those offered.
    ///
    /// # Errors
    ///
    /// [`NoMatch::Nothing`] if none was.
    pub(super) fn winner(&self) -> Result<Winner, Unanswered> {
        let found = |(_, _, mask)| Winner { mask, tied: Some(self.tied), known: KnownOrder::default() };
        self.best.map(found).ok_or(Unanswered::NoMatch(NoMatch::Nothing))
    }

    /// The best set, given the worth of each of [`Contest::sets`].
    pub(super) fn by_worth(mut self, worth: impl Iterator<Item = f64>) -> Result<Winner, Unanswered> {
        self.sets().zip(worth).for_each(|(mask, worth)| self.offer(worth, mask));
        self.winner()
    }

    /// The set with the largest sum, given that of each of [`Contest::sets`] in MB/s.
    pub(super) fn by_sums(self, sums: &[i64]) -> Result<Winner, Unanswered> {
        let found = self.by_worth(sums.iter().map(|sum| exactly(*sum)))?;
        let sum_mb_s = sums.get(POSITIONS.of(found.mask)).copied();
        Ok(Winner { known: KnownOrder { sum_mb_s, ..KnownOrder::default() }, ..found })
    }

    /// The set with the largest EffBW, given the level of the slowest edge for each of [`Contest::sets`].
    pub(super) fn by_levels(self, levels: &[u8]) -> Result<Winner, Unanswered> {
        let (space, model) = (self.space, self.query.model);
        let mb_s = |level: u8| space.levels[usize::from(level)];
        let worth = self.sets().zip(levels).map(|(mask, l)| space.predict(model, f64::from(mb_s(*l)), mask));
        let found = self.by_worth(worth)?;
        let slowest_mb_s = levels.get(POSITIONS.of(found.mask)).copied().map(mb_s);
        Ok(Winner { known: KnownOrder { slowest_mb_s, ..KnownOrder::default() }, ..found })
    }
}

#[expect(clippy::cast_precision_loss, reason = "sums of 120 links of 10^6 are far below 2^53")]
fn exactly(mb_s: i64) -> f64 {
    mb_s as f64
}

/// The GPUs that are not free: those that come back next, and all of them.
fn not_free(query: &Query<'_>, free: GpuSet) -> [GpuSet; 2] {
    let rest = GpuSet::from_bits(query.graph.all().bits() & !free.bits());
    [query.next.and(rest), rest]
}
