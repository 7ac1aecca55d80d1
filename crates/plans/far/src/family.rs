//! Phase 1 of FAR: the family of allocations.
//!
//! The first allocation gives every task the size of least work (slices times time; the smaller size on a tie). Each next
//! one gives the longest task the size of least work among the larger ones, until the longest task has none.
//!
//! Source: FAR, section 3.1, after Turek, Wolf and Yu (SPAA'92).

use std::collections::BinaryHeap;

use super::list_scheduling::{Queues, SortedTasks, TASK_BITS};
use super::problem::Micros;
use super::table::{NEVER, SearchTable};
use super::tree::MAX_NODES;

/// Which size counts where two have the same least work. The paper says the smaller; the authors' program takes
/// whichever its hash table yields first, which is mostly the larger, and its published results rest on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tie {
    Smaller,
    Larger,
}

/// One allocation of the family.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    /// No schedule with its sizes is shorter: its longest task, or what it takes of the places of some size spread evenly.
    pub(super) bound: Micros,
    /// The work of all tasks.
    pub(super) area: u64,
}

/// The task whose size differs between an allocation of the family and the one before.
#[derive(Clone, Copy)]
struct Change {
    task: u32,
    from: u8,
    to: u8,
}

/// The family: the first allocation and what changes from each to the next.
pub(super) struct Family {
    changes: Vec<Change>,
    pub(super) members: Vec<Member>,
    /// The present time of each task, longest on top, then its index from the end: the first of equals is on top.
    heap: Vec<u64>,
    /// The next size of (task, class) at `task * classes + class`: that of least work from `class` up.
    next: Vec<Next>,
    /// The present class of each task.
    class: Vec<u8>,
    /// The member that the queues have.
    at: usize,
    /// Whether some task had two sizes of equal work, so that the other [`Tie`] gives another family.
    pub(super) tied: bool,
}

/// A size of least work, `NONE` if there is none, and whether another size has as little.
#[derive(Clone, Copy)]
struct Next {
    class: u8,
    tied: bool,
}

const NONE: u8 = u8::MAX;
const LAST_TASK: u64 = (1 << TASK_BITS) - 1;

impl Family {
    pub(super) fn new(table: &SearchTable<'_>) -> Self {
        let n = table.tasks();
        let (changes, members) = (Vec::with_capacity(4 * n), Vec::with_capacity(4 * n + 1));
        let (heap, class) = (Vec::with_capacity(n), Vec::with_capacity(n));
        let next = Vec::with_capacity(n * table.classes);
        Self { changes, members, heap, next, class, at: 0, tied: false }
    }

    /// Finds the family, and fills the queues with its first member.
    pub(super) fn fill(
        &mut self,
        table: &SearchTable<'_>,
        tie: Tie,
        sorted: &SortedTasks,
        queues: &mut Queues,
    ) {
        self.changes.clear();
        self.members.clear();
        self.class.clear();
        self.heap.clear();
        (self.at, self.tied) = (0, false);
        self.set_next(table, tie);
        queues.clear();
        // What the tasks take of the places of each size, and their work.
        let mut areas = [0; MAX_NODES];
        let mut area = 0;
        let first = self.next.iter().step_by(table.classes);
        for ((&Next { class, tied }, times), (task, t)) in first.zip(table.rows()).zip((0u64..).zip(0u32..)) {
            self.tied |= tied;
            queues.add(sorted, t, class);
            self.class.push(class);
            let class = usize::from(class);
            let time = times[class];
            self.heap.push(time << TASK_BITS | (LAST_TASK - task));
            area += time * table.slices_of(class);
            table.shares(class).iter().zip(&mut areas).for_each(|(share, area)| *area += share * time);
        }
        let mut heap = BinaryHeap::from(std::mem::take(&mut self.heap));
        while let Some(mut longest) = heap.peek_mut() {
            let task = LAST_TASK - (*longest & LAST_TASK);
            let t = usize::try_from(task).unwrap_or(usize::MAX);
            let time = *longest >> TASK_BITS;
            let fullest = areas[..table.classes].iter().copied().max().unwrap_or(0);
            self.members.push(Member { bound: time.max(fullest.div_ceil(table.whole)), area });
            let from = self.class[t];
            let up = usize::from(from) + 1;
            if up == table.classes {
                break;
            }
            let Next { class: to, tied } = self.next[t * table.classes + up];
            if to == NONE {
                break;
            }
            self.tied |= tied;
            let less = table.time(t, usize::from(to));
            // A place holds none of a larger size: the rest of both is zero.
            let (old, new) = (table.shares(usize::from(from)), table.shares(usize::from(to)));
            for ((area, old), new) in areas[..=usize::from(to)].iter_mut().zip(old).zip(new) {
                *area = *area - old * time + new * less;
            }
            area = area - time * table.slices_of(usize::from(from)) + less * table.slices_of(usize::from(to));
            self.changes.push(Change { task: u32::try_from(task).unwrap_or(u32::MAX), from, to });
            self.class[t] = to;
            *longest = less << TASK_BITS | (LAST_TASK - task);
        }
        self.heap = heap.into_vec();
    }

    /// Finds the sizes of least work, from the largest down.
    fn set_next(&mut self, table: &SearchTable<'_>, tie: Tie) {
        self.next.clear();
        self.next.resize(table.tasks() * table.classes, Next { class: NONE, tied: false });
        let sizes = &table.problem.tree.sizes;
        let classes = u8::try_from(table.classes).unwrap_or(NONE);
        for (times, next) in table.rows().zip(self.next.chunks_exact_mut(table.classes)) {
            let (mut least, mut best) = (u64::MAX, Next { class: NONE, tied: false });
            let mut class = classes;
            for ((&time, &size), next) in times.iter().zip(sizes).zip(next).rev() {
                class -= 1;
                let work = time * u64::from(size);
                if time < NEVER && work <= least {
                    best.tied = work == least;
                    if work < least || tie == Tie::Smaller {
                        (least, best.class) = (work, class);
                    }
                }
                *next = best;
            }
        }
    }

    /// Turns the queues into those of member `k`.
    pub(super) fn go(&mut self, k: usize, sorted: &SortedTasks, queues: &mut Queues) {
        for c in &self.changes[self.at.min(k)..k] {
            queues.remove(sorted, c.task, c.from);
            queues.add(sorted, c.task, c.to);
        }
        for c in self.changes[k..self.at.max(k)].iter().rev() {
            queues.remove(sorted, c.task, c.to);
            queues.add(sorted, c.task, c.from);
        }
        self.at = k;
    }
}
