//! Phase 2 of FAR: one allocation scheduled by list scheduling on the repartitioning tree (Algorithm 1).
//!
//! The instance that ends first takes the longest unscheduled task of its size; when there is none it is destroyed and
//! its children take its place. Creations and destructions follow one another (`reconfig_end`).
//!
//! Source: FAR, section 3.2, Algorithm 1.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::problem::{MAX_TASKS, MAX_TIME, Micros};
use super::table::{Places, SearchTable, Site, members};
use super::tree::MAX_NODES;

/// Tasks sorted once per size, longest first.
pub(super) struct SortedTasks {
    /// Per class and rank, one number: the task's time from the longest down, then its index.
    keys: Vec<u64>,
    /// Position of (task, class) in the class's order, at `task * classes + class`.
    ranks: Vec<u32>,
    tasks: usize,
    classes: usize,
}

impl SortedTasks {
    pub(super) fn new(table: &SearchTable<'_>) -> Self {
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
                let task = sorted.task(class, rank).0 as usize;
                sorted.ranks[task * table.classes + class] = u32::try_from(rank).unwrap_or(u32::MAX);
            }
        }
        sorted
    }

    /// The task of a rank, and its time.
    fn task(&self, class: usize, rank: usize) -> (u32, Micros) {
        let key = self.keys[class * self.tasks + rank];
        let task = u32::try_from(key & ((1 << TASK_BITS) - 1)).unwrap_or(u32::MAX);
        (task, TIMES - (key >> TASK_BITS))
    }
}

/// Bits for a task's index and, above them, for its time: as many as the limits of a problem need.
pub(super) const TASK_BITS: u32 = MAX_TASKS.trailing_zeros();
const TIMES: Micros = Micros::MAX >> TASK_BITS;
const _: () = assert!(MAX_TIME < TIMES && MAX_TASKS.is_power_of_two());

/// The tasks of an allocation, per class: a bit per rank, so that none is ever sorted again.
pub(super) struct Queues {
    /// Words per class.
    words: usize,
    bits: Vec<u64>,
    count: [u32; MAX_NODES],
    /// Per class, the tasks that are not scheduled yet.
    waiting: [Waiting; MAX_NODES],
}

/// The tasks of one class that are not scheduled yet.
#[derive(Clone, Copy, Default)]
struct Waiting {
    count: u32,
    /// The word of the longest, and which of its tasks wait.
    word: u32,
    bits: u64,
}

impl Queues {
    fn new(table: &SearchTable<'_>) -> Self {
        let words = table.tasks().div_ceil(64);
        let bits = vec![0; words * table.classes];
        Self { words, bits, count: [0; MAX_NODES], waiting: [Waiting::default(); MAX_NODES] }
    }

    pub(super) fn clear(&mut self) {
        self.bits.fill(0);
        self.count = [0; MAX_NODES];
    }

    pub(super) fn add(&mut self, sorted: &SortedTasks, task: u32, class: u8) {
        let (word, bit) = self.place(sorted, task, class);
        self.bits[word] |= bit;
        self.count[usize::from(class)] += 1;
    }

    pub(super) fn remove(&mut self, sorted: &SortedTasks, task: u32, class: u8) {
        let (word, bit) = self.place(sorted, task, class);
        self.bits[word] &= !bit;
        self.count[usize::from(class)] -= 1;
    }

    fn place(&self, sorted: &SortedTasks, task: u32, class: u8) -> (usize, u64) {
        let rank = sorted.ranks[task as usize * sorted.classes + usize::from(class)] as usize;
        (usize::from(class) * self.words + rank / 64, 1 << (rank % 64))
    }

    /// Lets all tasks wait. Returns the classes that have some.
    fn start(&mut self, classes: usize) -> u32 {
        let mut some = 0;
        for class in 0..classes {
            let count = self.count[class];
            if count > 0 {
                some |= 1 << class;
                self.waiting[class] = Waiting { count, word: 0, bits: self.bits[class * self.words] };
            }
        }
        some
    }

    /// The longest task of a class that has some left, its time, and whether there are more.
    fn pop(&mut self, sorted: &SortedTasks, class: usize) -> (u32, Micros, bool) {
        let waiting = &mut self.waiting[class];
        while waiting.bits == 0 {
            waiting.word += 1;
            waiting.bits = self.bits[class * self.words + waiting.word as usize];
        }
        let rank = waiting.word as usize * 64 + waiting.bits.trailing_zeros() as usize;
        waiting.bits &= waiting.bits - 1;
        waiting.count -= 1;
        let (task, time) = sorted.task(class, rank);
        (task, time, waiting.count > 0)
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
    pub(super) fn new(table: &SearchTable<'_>) -> Self {
        Self {
            queues: Queues::new(table),
            heap: BinaryHeap::with_capacity(table.sites()),
            placed: Vec::with_capacity(table.tasks()),
            used: Vec::new(),
        }
    }
}

/// Schedules the allocation in the queues, whose tasks have `work` in all. Returns the makespan in µs, or `None` as soon as
/// it must exceed `limit`.
pub(super) fn schedule(
    table: &SearchTable<'_>,
    sorted: &SortedTasks,
    mut work: u64,
    limit: Micros,
    scratch: &mut Scratch,
) -> Option<Micros> {
    let Scratch { queues, heap, placed, used } = scratch;
    let mut waiting = queues.start(table.classes);
    heap.clear();
    placed.clear();
    used.clear();
    used.resize(table.gpus(), 0);
    // Numbers that are no place leave the heap at once. On one GPU whose root is used they change nothing and are left out.
    let rooted = waiting >> table.place(0).class & table.usable[0] & 1 == 1;
    let alone = table.gpus() == 1 && table.roots & table.all_places() == 1;
    let roots = if rooted && alone { 1 } else { table.roots };
    for base in (0..table.gpus()).map(|g| table.base(g)) {
        members(roots).for_each(|p| heap.push(Open::new(0, base + p)));
    }
    let (mut reconfig_end, mut makespan) = (0, 0);
    // What the leaves can still do until `limit`: each from the end of the instance on it, none once it is given up. `None`:
    // more than a number holds.
    let mut room = table.slices().checked_mul(limit);
    while waiting != 0
        && let Some(Open { mut end, site }) = heap.pop()
    {
        let s = site as usize;
        let (gpu, node) = (table.gpu(s), table.node(s));
        let place = table.place(node);
        let used = &mut used[gpu];
        let bit: Places = 1 << node;
        if waiting >> place.class & 1 == 1 && table.usable[gpu] & bit != 0 {
            let begin = end;
            if *used & bit == 0 {
                *used |= bit;
                reconfig_end = reconfig_end.max(end) + place.create;
                end = reconfig_end;
            }
            let (task, time, more) = queues.pop(sorted, place.class);
            end += time;
            makespan = makespan.max(end);
            work -= place.slices * time;
            if makespan > limit || !holds(&mut room, place.width, end - begin, work) {
                return None;
            }
            placed.push((task, site));
            heap.push(Open { end, site });
            if !more {
                waiting &= !(1 << place.class);
            }
            continue;
        }
        if *used & bit != 0 {
            reconfig_end = reconfig_end.max(end) + place.destroy;
        }
        if place.children == 0 && !holds(&mut room, place.width, limit - end, work) {
            return None;
        }
        let first = table.base(gpu);
        for child in members(place.children) {
            heap.push(Open::new(end, first + child));
        }
    }
    (waiting == 0).then_some(makespan)
}

/// Whether there is room for `work` when leaves of this `width` are taken for so long.
fn holds(room: &mut Option<u64>, width: u64, time: Micros, work: u64) -> bool {
    let Some(room) = room else { return true };
    *room = room.saturating_sub(width * time);
    work <= *room
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
