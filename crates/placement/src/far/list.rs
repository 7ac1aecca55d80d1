//! Phase 2 of FAR: one allocation scheduled by list scheduling on the repartitioning tree (Algorithm 1).
//!
//! The instance that ends first takes the longest unscheduled task of its size; when there is none it is destroyed and
//! its children take its place. Creations and destructions follow one another (`reconfig_end`).
//!
//! Source: FAR, section 3.2, Algorithm 1. Differs: an instance is only split when a task is left for a place below it;
//! the paper's text splits whenever any task is left, which can only add a destruction nobody needs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::problem::Micros;
use super::table::{Site, Table};

/// Tasks sorted once per size, longest first; filtered per allocation.
pub(super) struct Sorted {
    by_class: Vec<Vec<u32>>,
}

impl Sorted {
    pub(super) fn new(table: &Table<'_>) -> Self {
        let n = u32::try_from(table.tasks()).unwrap_or(u32::MAX);
        let sort = |class: usize| {
            let mut order: Vec<u32> = (0..n).collect();
            order.sort_unstable_by_key(|&t| (Reverse(table.time(t as usize, class)), t));
            order
        };
        Self { by_class: (0..table.classes).map(sort).collect() }
    }
}

/// Which tasks run where, in which order: one list per site.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    pub(super) tasks: Vec<Vec<u32>>,
}

/// Scratch space of [`schedule`], so that a family costs no allocation per member.
pub(super) struct Scratch {
    queues: Vec<Vec<u32>>,
    heap: BinaryHeap<Reverse<(Micros, u32, u32)>>,
    placed: Vec<(u32, u32)>,
    used: Vec<bool>,
}

impl Scratch {
    pub(super) fn new(table: &Table<'_>) -> Self {
        Self {
            queues: vec![Vec::with_capacity(table.tasks()); table.classes],
            heap: BinaryHeap::with_capacity(table.sites()),
            placed: Vec::with_capacity(table.tasks()),
            used: Vec::new(),
        }
    }

    /// The lists of the last successful [`schedule`].
    pub(super) fn lists(&self, table: &Table<'_>) -> Lists {
        let mut lists = Lists { tasks: vec![Vec::new(); table.sites()] };
        for &(task, site) in &self.placed {
            lists.tasks[site as usize].push(task);
        }
        lists
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
    for (class, queue) in scratch.queues.iter_mut().enumerate() {
        queue.clear();
        let mine = sorted.by_class[class].iter().filter(|&&t| usize::from(sizes[t as usize]) == class);
        queue.extend(mine.rev());
    }
    let below = classes_below(table);
    let mut waiting: u32 = (0u32..).zip(&scratch.queues).filter(|(_, q)| !q.is_empty()).map(|(c, _)| 1 << c).sum();
    scratch.heap.clear();
    scratch.placed.clear();
    scratch.used.clear();
    scratch.used.resize(table.sites(), false);
    let mut tick = 0;
    for root in roots(table) {
        scratch.heap.push(Reverse((0, tick, root)));
        tick += 1;
    }
    let (mut reconfig_end, mut makespan) = (0, 0);
    while waiting != 0
        && let Some(Reverse((mut end, _, site))) = scratch.heap.pop()
    {
        let s = site as usize;
        let class = table.class(s);
        if let Some(task) = scratch.queues[class].pop() {
            if !scratch.used[s] {
                scratch.used[s] = true;
                reconfig_end = reconfig_end.max(end) + table.create(s);
                end = reconfig_end;
            }
            end += table.time(task as usize, class);
            makespan = makespan.max(end);
            if makespan > limit {
                return None;
            }
            scratch.placed.push((task, site));
            scratch.heap.push(Reverse((end, tick, site)));
            tick += 1;
            if scratch.queues[class].is_empty() {
                waiting &= !(1 << class);
            }
        } else if below[s % table.places] & waiting != 0 {
            if scratch.used[s] {
                reconfig_end = reconfig_end.max(end) + table.destroy(s);
            }
            for child in table.children(s) {
                scratch.heap.push(Reverse((end, tick, u32::try_from(child).unwrap_or(u32::MAX))));
                tick += 1;
            }
        }
    }
    (waiting == 0).then_some(makespan)
}

fn roots(table: &Table<'_>) -> impl Iterator<Item = u32> + '_ {
    let sites = 0..u32::try_from(table.sites()).unwrap_or(u32::MAX);
    sites.filter(|&s| table.parent(s as Site).is_none())
}

/// Per place, the classes of the places below it as bits.
fn classes_below(table: &Table<'_>) -> [u32; super::tree::MAX_NODES] {
    let mut below = [0; super::tree::MAX_NODES];
    for (n, node) in table.problem.tree.nodes.iter().enumerate().rev() {
        if let Some(parent) = node.parent {
            below[parent] |= below[n] | 1 << node.class;
        }
    }
    below
}
