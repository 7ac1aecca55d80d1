//! Phase 1 of FAR: the family of allocations.
//!
//! The first allocation gives every task the size of least work (slices times time; the smaller size on a tie). Each next
//! one gives the longest task the size of least work among the larger ones, until the longest task has none.
//!
//! Source: FAR, section 3.1, after Turek, Wolf and Yu (SPAA'92).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::list::{Queues, Sorted};
use super::problem::Micros;
use super::table::{NEVER, Table};

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
    /// No schedule with its sizes is shorter: its area spread evenly, or its longest task.
    pub(super) bound: Micros,
    /// The work of all tasks.
    pub(super) area: u64,
}

/// What tells an allocation of the family from the one before.
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
    heap: Vec<(Micros, Reverse<u32>, u8)>,
    /// The member that the queues have.
    at: usize,
    /// Whether two sizes of equal work stood to choice somewhere, so that the other way to choose gives another family.
    pub(super) tied: bool,
}

impl Family {
    pub(super) fn new(table: &Table<'_>) -> Self {
        let n = table.tasks();
        let (changes, members) = (Vec::with_capacity(4 * n), Vec::with_capacity(4 * n + 1));
        Self { changes, members, heap: Vec::with_capacity(n), at: 0, tied: false }
    }

    /// Finds the family, and fills the queues with its first member.
    pub(super) fn fill(&mut self, table: &Table<'_>, tie: Tie, sorted: &Sorted, queues: &mut Queues) {
        self.changes.clear();
        self.members.clear();
        (self.at, self.tied) = (0, false);
        queues.clear();
        let mut heap = std::mem::take(&mut self.heap);
        heap.clear();
        let mut area = 0;
        for (task, t) in (0..table.tasks()).zip(0u32..) {
            let Some((class, tied)) = least_work(table, task, 0, tie) else { continue };
            self.tied |= tied;
            queues.add(sorted, t, class);
            heap.push((table.time(task, usize::from(class)), Reverse(t), class));
            area += table.work(task, usize::from(class));
        }
        let mut heap = BinaryHeap::from(heap);
        while let Some(mut longest) = heap.peek_mut() {
            let (time, Reverse(task), from) = *longest;
            self.members.push(Member { bound: time.max(area.div_ceil(table.slices())), area });
            let Some((to, tied)) = least_work(table, task as usize, usize::from(from) + 1, tie) else {
                break;
            };
            self.tied |= tied;
            area = area - table.work(task as usize, usize::from(from))
                + table.work(task as usize, usize::from(to));
            self.changes.push(Change { task, from, to });
            *longest = (table.time(task as usize, usize::from(to)), Reverse(task), to);
        }
        self.heap = heap.into_vec();
    }

    /// Turns the queues into those of member `k`.
    pub(super) fn go(&mut self, k: usize, sorted: &Sorted, queues: &mut Queues) {
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

/// The class of least work from `from` up, and whether another one has as little.
fn least_work(table: &Table<'_>, task: usize, from: usize, tie: Tie) -> Option<(u8, bool)> {
    let mut best = None;
    let mut tied = false;
    for class in (from..table.classes).filter(|&c| table.time(task, c) < NEVER) {
        let work = table.work(task, class);
        let equal = best.is_some_and(|(least, _)| work == least);
        if best.is_none_or(|(least, _)| work < least) {
            (best, tied) = (Some((work, class)), false);
        } else if equal {
            tied = true;
            if tie == Tie::Larger {
                best = Some((work, class));
            }
        }
    }
    best.and_then(|(_, class)| Some((u8::try_from(class).ok()?, tied)))
}
