//! Sets by what they are worth, and what breaks ties.

use super::policy::NoChoice;
use super::space::{Space, bits, subsets};

/// What is known of a set's best order, where sets were ranked by that.
#[derive(Clone, Copy, Default)]
pub(super) struct Known {
    pub(super) slowest_mbps: Option<u32>,
    pub(super) sum_mbps: Option<i64>,
}

/// A set that won.
pub(super) struct Found {
    pub(super) mask: u32,
    pub(super) tied: Option<u64>,
    pub(super) known: Known,
}

/// Sets ranked by one number, then preserved bandwidth, then the lowest GPUs.
pub(super) struct Ranking<'a> {
    space: &'a Space,
    to_all: Vec<u64>,
    pub(super) best: Option<(f64, u64, u32)>,
    tied: u64,
}

impl<'a> Ranking<'a> {
    pub(super) fn new(space: &'a Space) -> Self {
        let all = (1_u32 << space.len()) - 1;
        let to_all = (0..space.len()).map(|v| u64::from(space.kept_to_set(v, all))).collect();
        Self { space, to_all, best: None, tied: 0 }
    }

    /// What a set takes of links worth keeping: those among its members and those to the rest.
    pub(super) fn lost(&self, mask: u32) -> u64 {
        let all: u64 = bits(mask).map(|v| self.to_all[v]).sum();
        all - u64::from(self.space.kept_among(mask))
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
        let mut sets: Vec<((u64, u32), u32)> =
            subsets(self.space.len(), n).map(|mask| (key(mask), mask)).collect();
        sets.sort_unstable();
        sets.into_iter().map(|(_, mask)| mask).collect()
    }

    pub(super) fn winner(&self) -> Result<Found, NoChoice> {
        let found = |(_, _, mask)| Found { mask, tied: Some(self.tied), known: Known::default() };
        self.best.map(found).ok_or(NoChoice::Nothing)
    }
}
