//! Phase 2 of FAR: one allocation scheduled by list scheduling on the repartitioning tree (Algorithm 1).
//!
//! The instance that ends first takes the longest unscheduled task of its size; when there is none it is destroyed and
//! its children take its place. Creations and destructions follow one another (`reconfig_end`).
//!
//! Source: FAR, section 3.2, Algorithm 1.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::problem::{MAX_TASKS, MAX_TIME, Micros};
use super::table::{Places, Site, Table, members};
use super::tree::MAX_NODES;

/// Tasks sorted once per size, longest first.
pub(super) struct Sorted {
    /// Per class and rank, one number: the task's time from the longest down, then its index.
    keys: Vec<u64>,
    /// Position of (task, class) in the class's order, at `task * classes + class`.
    ranks: Vec<u32>,
    tasks: usize,
    classes: usize,
}

impl Sorted {
    pub(super) fn new(table: &Table<'_>) -> Self {
        let tasks = table.tasks();
        let mut sorted = Self {
            keys: Vec::with_capacity(tasks * table.classes),
            ranks: vec![0; tasks * table.classes],
            tasks,
            classes: table.classes,
        };
        for class in 0..table.classes {
            let key = |t: usize| (TIMES - table.time(t, class).min(TIMES)) << TASK_BITS | t as u64;
            sorted.keys.extend((0..tasks).map(key));
            sorted.keys[class * tasks..].sort_unstable();
            for rank in 0..tasks {
                let task = sorted.task(class, rank) as usize;
                sorted.ranks[task * table.classes + class] = u32::try_from(rank).unwrap_or(u32::MAX);
            }
        }
        sorted
    }

    fn task(&self, class: usize, rank: usize) -> u32 {
        let task = self.keys[class * self.tasks + rank] & ((1 << TASK_BITS) - 1);
        u32::try_from(task).unwrap_or(u32::MAX)
    }
}

/// Bits for a task's index and, above them, for its time: as many as the limits of a problem need.
const TASK_BITS: u32 = MAX_TASKS.trailing_zeros();
const TIMES: Micros = Micros::MAX >> TASK_BITS;
const _: () = assert!(MAX_TIME < TIMES && MAX_TASKS.is_power_of_two());

/// The tasks of an allocation, per class: a bit per rank, so that none is ever sorted again.
pub(super) struct Queues {
    /// Words per class.
    words: usize,
    /// The allocation, then what waits of it.
    bits: Vec<u64>,
    count: [u32; MAX_NODES],
    left: [u32; MAX_NODES],
    /// Per class: the first word that may have a bit.
    next: [u32; MAX_NODES],
}

impl Queues {
    fn new(table: &Table<'_>) -> Self {
        let words = table.tasks().div_ceil(64);
        let bits = vec![0; 2 * words * table.classes];
        Self { words, bits, count: [0; MAX_NODES], left: [0; MAX_NODES], next: [0; MAX_NODES] }
    }

    pub(super) fn clear(&mut self) {
        self.bits.fill(0);
        self.count = [0; MAX_NODES];
    }

    pub(super) fn add(&mut self, sorted: &Sorted, task: u32, class: u8) {
        let (word, bit) = self.place(sorted, task, class);
        self.bits[word] |= bit;
        self.count[usize::from(class)] += 1;
    }

    pub(super) fn remove(&mut self, sorted: &Sorted, task: u32, class: u8) {
        let (word, bit) = self.place(sorted, task, class);
        self.bits[word] &= !bit;
        self.count[usize::from(class)] -= 1;
    }

    fn place(&self, sorted: &Sorted, task: u32, class: u8) -> (usize, u64) {
        let rank = sorted.ranks[task as usize * sorted.classes + usize::from(class)] as usize;
        (usize::from(class) * self.words + rank / 64, 1 << (rank % 64))
    }

    /// Lets all tasks wait. Returns the classes that have some.
    fn start(&mut self) -> u32 {
        let half = self.bits.len() / 2;
        self.bits.copy_within(..half, half);
        self.left = self.count;
        self.next = [0; MAX_NODES];
        (0u32..).zip(&self.left).map(|(c, &left)| u32::from(left > 0) << c).sum()
    }

    /// The longest task of a class that waits.
    fn pop(&mut self, sorted: &Sorted, class: usize) -> Option<u32> {
        self.left[class] = self.left[class].checked_sub(1)?;
        let first = self.bits.len() / 2 + class * self.words;
        let words = &mut self.bits[first..first + self.words];
        let mut next = self.next[class] as usize;
        while words[next] == 0 {
            next += 1;
        }
        let rank = next * 64 + words[next].trailing_zeros() as usize;
        words[next] &= words[next] - 1;
        self.next[class] = u32::try_from(next).unwrap_or(u32::MAX);
        Some(sorted.task(class, rank))
    }
}

/// Scratch space of [`schedule`], so that a family costs no allocation per member.
pub(super) struct Scratch {
    /// The allocation to schedule.
    pub(super) queues: Queues,
    heap: BinaryHeap<Open>,
    /// Task and site, in the order of placement, of the last successful [`schedule`].
    pub(super) placed: Vec<(u32, u32)>,
    /// Per GPU: places where an instance has been.
    used: Vec<Places>,
}

impl Scratch {
    pub(super) fn new(table: &Table<'_>) -> Self {
        Self {
            queues: Queues::new(table),
            heap: BinaryHeap::with_capacity(table.sites()),
            placed: Vec::with_capacity(table.tasks()),
            used: Vec::new(),
        }
    }
}

/// Schedules the allocation in the queues, whose tasks have `work` in all. Returns the makespan, or `None` as soon as it is clear
/// that it would exceed `limit`.
pub(super) fn schedule(
    table: &Table<'_>,
    sorted: &Sorted,
    mut work: u64,
    limit: Micros,
    scratch: &mut Scratch,
) -> Option<Micros> {
    let mut waiting = scratch.queues.start();
    scratch.heap.clear();
    scratch.placed.clear();
    scratch.used.clear();
    scratch.used.resize(table.gpus(), 0);
    for base in (0..table.gpus()).map(|g| table.base(g)) {
        members(table.roots).for_each(|p| scratch.heap.push(Open::new(0, base + p)));
    }
    let (mut reconfig_end, mut makespan) = (0, 0);
    // What the leaves can still do until `limit`: each from the end of the instance on it, none once it is given up.
    let mut room = table.slices().saturating_mul(limit);
    while waiting != 0
        && let Some(Open { mut end, site }) = scratch.heap.pop()
    {
        let s = site as usize;
        let place = table.at(s);
        let class = place.class;
        let used = &mut scratch.used[table.gpu(s)];
        let bit: Places = 1 << table.node(s);
        if table.is_usable(s)
            && let Some(task) = scratch.queues.pop(sorted, class)
        {
            let begin = end;
            if *used & bit == 0 {
                *used |= bit;
                reconfig_end = reconfig_end.max(end) + place.create;
                end = reconfig_end;
            }
            end += table.time(task as usize, class);
            makespan = makespan.max(end);
            work -= table.work(task as usize, class);
            room = room.saturating_sub(place.width * (end - begin));
            if makespan > limit || work > room {
                return None;
            }
            scratch.placed.push((task, site));
            scratch.heap.push(Open { end, site });
            if scratch.queues.left[class] == 0 {
                waiting &= !(1 << class);
            }
            continue;
        }
        if *used & bit != 0 {
            reconfig_end = reconfig_end.max(end) + place.destroy;
        }
        if place.children == 0 {
            room = room.saturating_sub(place.width * (limit - end));
            if work > room {
                return None;
            }
        }
        let first = table.base(table.gpu(s));
        for child in members(place.children) {
            scratch.heap.push(Open::new(end, first + child));
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

impl Open {
    fn new(end: Micros, site: Site) -> Self {
        Self { end, site: u32::try_from(site).unwrap_or(u32::MAX) }
    }
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
