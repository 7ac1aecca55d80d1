//! Phase 2 of FAR: one allocation scheduled by list scheduling on the repartitioning tree (Algorithm 1).
//!
//! The instance that ends first takes the longest unscheduled task of its size; when there is none it is destroyed and
//! its children take its place. Creations and destructions follow one another (`reconfig_end`).
//!
//! Source: FAR, section 3.2, Algorithm 1.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::problem::Micros;
use super::table::{Site, Table, members};

/// Tasks sorted once per size, longest first.
pub(super) struct Sorted {
    by_class: Vec<Vec<u32>>,
    /// Position of (task, class) in the class's order, at `task * classes + class`.
    ranks: Vec<u32>,
}

impl Sorted {
    pub(super) fn new(table: &Table<'_>) -> Self {
        let n = u32::try_from(table.tasks()).unwrap_or(u32::MAX);
        let sort = |class: usize| {
            let mut order: Vec<u32> = (0..n).collect();
            order.sort_unstable_by_key(|&t| (Reverse(table.time(t as usize, class)), t));
            order
        };
        let by_class: Vec<Vec<u32>> = (0..table.classes).map(sort).collect();
        let mut ranks = vec![0; table.tasks() * table.classes];
        for (class, order) in by_class.iter().enumerate() {
            for (rank, &task) in (0u32..).zip(order) {
                ranks[task as usize * table.classes + class] = rank;
            }
        }
        Self { by_class, ranks }
    }
}

/// The tasks of an allocation that wait, per class: a bit per rank, so that an allocation is filled in without sorting.
struct Queues {
    /// Words per class.
    words: usize,
    bits: Vec<u64>,
    /// Per class: the first word that may have a bit.
    next: Vec<usize>,
    left: Vec<u32>,
}

impl Queues {
    fn new(table: &Table<'_>) -> Self {
        let words = table.tasks().div_ceil(64);
        let classes = table.classes;
        Self { words, bits: vec![0; words * classes], next: vec![0; classes], left: vec![0; classes] }
    }

    fn fill(&mut self, sorted: &Sorted, sizes: &[u8]) {
        self.bits.fill(0);
        self.next.fill(0);
        self.left.fill(0);
        let classes = self.left.len();
        for (ranks, class) in sorted.ranks.chunks_exact(classes).zip(sizes.iter().map(|&c| usize::from(c))) {
            let rank = ranks[class] as usize;
            self.bits[class * self.words + rank / 64] |= 1 << (rank % 64);
            self.left[class] += 1;
        }
    }

    /// The longest task of a class that waits.
    fn pop(&mut self, sorted: &Sorted, class: usize) -> Option<u32> {
        self.left[class] = self.left[class].checked_sub(1)?;
        let words = &mut self.bits[class * self.words..(class + 1) * self.words];
        while words[self.next[class]] == 0 {
            self.next[class] += 1;
        }
        let word = &mut words[self.next[class]];
        let rank = self.next[class] * 64 + word.trailing_zeros() as usize;
        *word &= *word - 1;
        Some(sorted.by_class[class][rank])
    }
}

/// Which tasks run where, in which order: one list per site.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    pub(super) tasks: Vec<Vec<u32>>,
}

impl Lists {
    pub(super) fn of(table: &Table<'_>, placed: &[(u32, u32)]) -> Self {
        let mut lists = Self { tasks: vec![Vec::new(); table.sites()] };
        for &(task, site) in placed {
            lists.tasks[site as Site].push(task);
        }
        lists
    }
}

/// Scratch space of [`schedule`], so that a family costs no allocation per member.
pub(super) struct Scratch {
    queues: Queues,
    roots: Vec<u32>,
    heap: BinaryHeap<Open>,
    /// Task and site, in the order of placement, of the last successful [`schedule`].
    pub(super) placed: Vec<(u32, u32)>,
    used: Vec<bool>,
}

impl Scratch {
    pub(super) fn new(table: &Table<'_>) -> Self {
        Self {
            queues: Queues::new(table),
            roots: roots(table).collect(),
            heap: BinaryHeap::with_capacity(table.sites()),
            placed: Vec::with_capacity(table.tasks()),
            used: Vec::new(),
        }
    }
}

/// Schedules the allocation `sizes`. Returns the makespan, or `None` as soon as it would exceed `limit`.
pub(super) fn schedule(
    table: &Table<'_>,
    sorted: &Sorted,
    sizes: &[u8],
    limit: Micros,
    scratch: &mut Scratch,
) -> Option<Micros> {
    scratch.queues.fill(sorted, sizes);
    let mut waiting: u32 =
        (0u32..).zip(&scratch.queues.left).filter(|(_, left)| **left > 0).map(|(c, _)| 1 << c).sum();
    scratch.heap.clear();
    scratch.placed.clear();
    scratch.used.clear();
    scratch.used.resize(table.sites(), false);
    scratch.heap.extend(scratch.roots.iter().map(|&site| Open { end: 0, site }));
    let (mut reconfig_end, mut makespan) = (0, 0);
    let mut work: u64 = sizes.iter().enumerate().map(|(t, &class)| table.work(t, usize::from(class))).sum();
    while waiting != 0
        && let Some(Open { mut end, site }) = scratch.heap.pop()
    {
        // Whatever is still waiting begins no earlier than the instance that ends first.
        if end > limit || work > (limit - end).saturating_mul(table.slices()) {
            return None;
        }
        let s = site as usize;
        let place = table.at(s);
        let class = place.class;
        if table.is_usable(s)
            && let Some(task) = scratch.queues.pop(sorted, class)
        {
            if !scratch.used[s] {
                scratch.used[s] = true;
                reconfig_end = reconfig_end.max(end) + place.create;
                end = reconfig_end;
            }
            end += table.time(task as usize, class);
            work -= table.work(task as usize, class);
            makespan = makespan.max(end);
            if makespan > limit {
                return None;
            }
            scratch.placed.push((task, site));
            scratch.heap.push(Open { end, site });
            if scratch.queues.left[class] == 0 {
                waiting &= !(1 << class);
            }
        } else {
            if scratch.used[s] {
                reconfig_end = reconfig_end.max(end) + place.destroy;
            }
            let first = table.base(table.gpu(s));
            for child in members(place.children) {
                scratch.heap.push(Open { end, site: u32::try_from(first + child).unwrap_or(u32::MAX) });
            }
        }
    }
    (waiting == 0).then_some(makespan)
}

/// An instance in the heap. Greater is earlier; equal ends compare equal, so that ties fall as in any binary heap that
/// sifts a hole down and the last element up, the authors' included.
#[derive(Clone, Copy)]
struct Open {
    end: Micros,
    site: u32,
}

impl Ord for Open {
    fn cmp(&self, other: &Self) -> Ordering {
        other.end.cmp(&self.end)
    }
}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Open {
    fn eq(&self, other: &Self) -> bool {
        self.end == other.end
    }
}

impl Eq for Open {}

fn roots<'a>(table: &'a Table<'a>) -> impl Iterator<Item = u32> + 'a {
    let sites = 0..u32::try_from(table.sites()).unwrap_or(u32::MAX);
    sites.filter(|&s| table.parent(s as Site).is_none())
}
