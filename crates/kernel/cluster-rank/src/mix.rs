//! The requests that arrive, as shapes with weights.

use crate::shape::{Models, Shape};
use crate::share::even_share;

/// Most entries of a mix: shapes of a group of accounts. An entry has 24 bytes.
pub const MOST_ENTRIES: usize = 256;
/// Groups of accounts.
const GROUPS: u8 = 32;
/// Requests after which the counts of a group are halved.
const HALVE_AT: u32 = 8192;
/// Most requests of one group that bring the halving of all groups nearer.
const MOST_TOWARDS: u32 = HALVE_AT / 4;
/// Requests until which the uniform mix counts.
const UNIFORM: f64 = 16.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    group: u8,
    shape: Shape,
    count: u32,
}

/// Decayed counts of the requests that arrived, by shape and group of accounts.
///
/// Accounts are divided into 32 groups. A group's counts are halved after every 8,192 requests of its own. Those of all groups
/// are halved after as many requests, among which at most a quarter counts of each group. So no account alone ages
/// what others submitted. If entries run out, the group with the most loses its rarest shape: a million odd shapes of one
/// account displace each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mix {
    /// Ordered by group and shape.
    entries: Vec<Entry>,
    /// Requests of each group since all counts were halved.
    since: [u32; GROUPS as usize],
}

impl Mix {
    /// Builds a mix from running and pending requests, whose order does not matter.
    #[must_use]
    pub fn rebuilt(requests: impl IntoIterator<Item = (u32, Shape)>) -> Self {
        let mut all: Vec<(u32, Shape)> = requests.into_iter().collect();
        all.sort_unstable();
        let mut mix = Self::default();
        all.into_iter().for_each(|(account, shape)| mix.arrived(account, shape));
        mix
    }

    /// Counts a request of an account.
    pub fn arrived(&mut self, account: u32, shape: Shape) {
        let group = group_of(account);
        match self.position(group, &shape) {
            Ok(at) => self.entries[at].count += 1,
            Err(at) => self.insert(at, Entry { group, shape, count: 1 }),
        }
        if self.total(group) >= HALVE_AT {
            self.halve(|entry| entry.group == group);
        }
        self.since[usize::from(group)] += 1;
        if self.since.iter().map(|&since| since.min(MOST_TOWARDS)).sum::<u32>() >= HALVE_AT {
            self.since = [0; GROUPS as usize];
            self.halve(|_| true);
        }
        let most = &mut self.since[usize::from(group)];
        *most = (*most).min(MOST_TOWARDS);
    }

    /// Lists the shapes with their probabilities, which add up to 1.
    ///
    /// No group of accounts has more than a quarter of it, or than its equal share if fewer than four have submitted. What is
    /// missing to 16 requests is the uniform mix: tenths of one GPU, from one to ten, all as likely, with any model and without
    /// cores.
    #[must_use]
    pub fn weights(&self) -> Vec<(Shape, f64)> {
        let mut totals = [0; GROUPS as usize];
        self.entries.iter().for_each(|entry| totals[usize::from(entry.group)] += entry.count);
        let most = even_share(&totals);
        let weight = |entry: &Entry| {
            let total = f64::from(totals[usize::from(entry.group)]);
            (entry.shape, f64::from(entry.count) * (most / total).min(1.0))
        };
        let mut all: Vec<(Shape, f64)> = self.entries.iter().map(weight).collect();
        let seen: f64 = totals.iter().map(|&total| f64::from(total)).sum();
        all.extend(uniform((UNIFORM - seen).max(0.0)));
        all.sort_by_key(|&(shape, _)| shape);
        all.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 += if same { next.1 } else { 0.0 };
            same
        });
        let sum: f64 = all.iter().map(|one| one.1).sum();
        all.iter_mut().for_each(|one| one.1 /= sum);
        all
    }

    /// Counts the entries: at most [`MOST_ENTRIES`].
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    fn position(&self, group: u8, shape: &Shape) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| (entry.group, &entry.shape).cmp(&(group, shape)))
    }

    fn total(&self, group: u8) -> u32 {
        self.entries.iter().filter(|entry| entry.group == group).map(|entry| entry.count).sum()
    }

    fn insert(&mut self, at: usize, entry: Entry) {
        self.entries.insert(at, entry);
        if self.entries.len() <= MOST_ENTRIES {
            return;
        }
        let mut of_group = [0_usize; GROUPS as usize];
        self.entries.iter().for_each(|one| of_group[usize::from(one.group)] += 1);
        let most = of_group.iter().max().copied().unwrap_or(0);
        let largest = |group: u8| of_group[usize::from(group)] == most;
        let rarest = self.entries.iter().enumerate().filter(|(i, one)| *i != at && largest(one.group));
        if let Some((i, _)) = rarest.min_by_key(|(_, one)| one.count) {
            self.entries.remove(i);
        }
    }

    fn halve(&mut self, of: impl Fn(&Entry) -> bool) {
        self.entries.iter_mut().filter(|entry| of(entry)).for_each(|entry| entry.count /= 2);
        self.entries.retain(|entry| entry.count > 0);
    }
}

/// Spreads accounts over the groups; numbers of accounts follow each other.
fn group_of(account: u32) -> u8 {
    u8::try_from(account.wrapping_mul(0x9e37_79b9) >> 27).unwrap_or(0)
}

fn uniform(requests: f64) -> impl Iterator<Item = (Shape, f64)> {
    let shapes = if requests > 0.0 { 10 } else { 0 };
    (1..=shapes).map(move |tenths: u16| {
        let shape = Shape { cores_milli: 0, gpus: 1, milli: tenths * 100, models: Models::ANY };
        (shape, requests / 10.0)
    })
}
