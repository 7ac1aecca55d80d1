//! Phase 1 of FAR: the family of allocations.
//!
//! The first allocation gives every task the size of least work (slices times time; the smaller size on a tie). Each next
//! one gives the longest task the size of least work among the larger ones, until the longest task has none.
//!
//! Source: FAR, section 3.1, after Turek, Wolf and Yu (SPAA'92).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::problem::Micros;
use super::table::{NEVER, Table};

/// Which size counts where two have the same least work. The paper says the smaller; the authors' program takes
/// whichever its hash table yields first, which is mostly the larger, and its published results rest on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tie {
    Smaller,
    Larger,
}

/// The family: the first allocation and what changes from each to the next.
pub(super) struct Family {
    first: Vec<u8>,
    changes: Vec<(u32, u8)>,
    /// Per member, a lower bound of the makespan of any schedule with its sizes: its area spread evenly, or its
    /// longest task.
    pub(super) bounds: Vec<Micros>,
}

impl Family {
    pub(super) fn new(table: &Table<'_>, tie: Tie) -> Self {
        let first: Vec<u8> = (0..table.tasks()).filter_map(|t| least_work(table, t, 0, tie)).collect();
        let mut family = Self { changes: Vec::new(), bounds: Vec::new(), first };
        let mut heap: BinaryHeap<(Micros, Reverse<u32>, u8)> = BinaryHeap::with_capacity(table.tasks());
        let mut area = 0;
        for (task, &class) in (0u32..).zip(&family.first) {
            heap.push((table.time(task as usize, usize::from(class)), Reverse(task), class));
            area += table.work(task as usize, usize::from(class));
        }
        while let Some(mut longest) = heap.peek_mut() {
            let (time, Reverse(task), class) = *longest;
            family.bounds.push(time.max(area.div_ceil(table.slices())));
            let Some(larger) = least_work(table, task as usize, usize::from(class) + 1, tie) else { break };
            area = area - table.work(task as usize, usize::from(class))
                + table.work(task as usize, usize::from(larger));
            family.changes.push((task, larger));
            *longest = (table.time(task as usize, usize::from(larger)), Reverse(task), larger);
        }
        family
    }

    /// Members, lowest bound first.
    pub(super) fn by_bound(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0u32..).take(self.bounds.len()).collect();
        order.sort_unstable_by_key(|&k| (self.bounds[k as usize], k));
        order
    }

    /// The size class of every task in member `k`, written to `sizes`.
    pub(super) fn member(&self, k: u32, sizes: &mut Vec<u8>) {
        sizes.clear();
        sizes.extend_from_slice(&self.first);
        for &(task, class) in &self.changes[..k as usize] {
            sizes[task as usize] = class;
        }
    }
}

/// The class of least work from `from` up.
fn least_work(table: &Table<'_>, task: usize, from: usize, tie: Tie) -> Option<u8> {
    let mut best = None;
    for class in (from..table.classes).filter(|&c| table.time(task, c) < NEVER) {
        let work = table.work(task, class);
        if best.is_none_or(|(least, _)| work < least || (work == least && tie == Tie::Larger)) {
            best = Some((work, class));
        }
    }
    best.and_then(|(_, class)| u8::try_from(class).ok())
}

/// Whether any task has two sizes of equal work, so that the two ways to break ties can differ.
pub(super) fn has_ties(table: &Table<'_>) -> bool {
    (0..table.tasks()).any(|t| {
        let tied = |a: usize, b: usize| table.time(t, a) < NEVER && table.work(t, a) == table.work(t, b);
        (0..table.classes).any(|a| (a + 1..table.classes).any(|b| tied(a, b)))
    })
}
