//! A lower bound of the makespan from areas alone: quick, for batches of any size and GPUs in any state.
//!
//! A makespan T is ruled out when a task fits no size within T, or when the least work of all tasks, each at the sizes
//! that fit, exceeds what the slices offer until T: on an empty GPU every slice first waits for a creation, on another
//! one the slices of running instances come free late. The bound is the smallest T that is not ruled out.

use super::problem::{Micros, Problem};
use super::table::{NEVER, Table, members};

/// The bound, µs; 0 for an empty batch.
pub(super) fn by_area(table: &Table<'_>) -> Micros {
    if table.tasks() == 0 {
        return 0;
    }
    let idle = Idle::of(table);
    let (mut low, mut high) = (0, NEVER);
    while low < high {
        let middle = low + (high - low) / 2;
        if possible(table, &idle, middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// What the state of the GPUs takes from the slices.
struct Idle {
    /// The shortest creation any task must wait for; 0 where an instance exists.
    create: Micros,
    /// (slices, until) that are taken by running instances; `NEVER` for those of unknown end.
    taken: Vec<(u64, Micros)>,
}

impl Idle {
    fn of(table: &Table<'_>) -> Self {
        let problem: &Problem = table.problem;
        let taken = problem.gpus.iter().flat_map(|g| &g.held);
        let taken = taken.map(|h| (u64::from(problem.tree.nodes[h.node].size), h.until.unwrap_or(NEVER)));
        let shortest = problem.costs.create.iter().copied().min().unwrap_or(0);
        Self { create: if problem.starts_empty() { shortest } else { 0 }, taken: taken.collect() }
    }
}

fn possible(table: &Table<'_>, idle: &Idle, makespan: Micros) -> bool {
    let Some(rest) = makespan.checked_sub(idle.create) else { return false };
    let mut work: u64 = 0;
    for task in 0..table.tasks() {
        let fitting =
            (0..table.classes).filter(|&c| table.time(task, c) <= rest && table.time(task, c) < NEVER);
        let Some(least) = fitting.map(|c| table.work(task, c)).min() else { return false };
        work = work.saturating_add(least);
    }
    let taken =
        idle.taken.iter().map(|&(slices, until)| slices * until.min(rest)).fold(0, u64::saturating_add);
    work.saturating_add(taken) <= table.slices().saturating_mul(rest)
}

/// The least work of one task within `makespan`, in slices held times time; `None` if it fits nowhere.
pub(super) fn least_area(table: &Table<'_>, task: usize, makespan: Micros) -> Option<u64> {
    let area = |p: usize| {
        let place = table.place(p);
        let time = table.time(task, place.class);
        let fits = time < NEVER && place.create + time <= makespan;
        fits.then(|| u64::from(place.leaves.count_ones()) * time)
    };
    members(table.all_places()).filter_map(area).min()
}
