//! A lower bound of the makespan from areas alone: quick, for batches of any size and GPUs in any state.
//!
//! A makespan T is impossible if some task fits no size within T. It is also impossible if the least work of all tasks,
//! each at the sizes that fit, exceeds what the slices offer until T: on an empty GPU every slice first waits for a
//! creation, on other GPUs the slices of running instances come free late. The bound is the smallest T that passes both.

use super::problem::{GpuNow, Micros, Problem};
use super::table::{NEVER, SearchTable, members};

/// The bound, µs; 0 for an empty batch.
pub(super) fn by_area(table: &SearchTable<'_>) -> Micros {
    if table.tasks() == 0 {
        return 0;
    }
    let idle = Idle::of(table);
    // No less than all work at its least, spread over slices that are free from the first creation on; mostly not much more.
    let mut low = table.problem.baseline() + idle.create;
    let (mut high, mut step) = (low, 1);
    while high < NEVER && !possible(table, &idle, high) {
        (low, high, step) = (high + 1, high + step, 2 * step);
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if possible(table, &idle, middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// What the slices lose to the state of the GPUs.
struct Idle {
    /// The shortest creation any task must wait for; 0 where an instance exists.
    create: Micros,
    /// Per leaf of the trees: when it comes free; `NEVER` if nobody knows. Every place has at least as many leaves as
    /// compute slices, so work never needs fewer leaves than slices.
    free: Vec<Micros>,
}

impl Idle {
    fn of(table: &SearchTable<'_>) -> Self {
        let problem: &Problem = table.problem;
        let nodes = &problem.tree.nodes;
        let leaves = || (0..nodes.len()).filter(|&n| nodes[n].children.is_empty());
        let free = |(now, leaf): (&GpuNow, usize)| {
            let held = now.held.iter().map(|h| (nodes[h.node].mask, h.until));
            let taken = held.chain(now.blocked.iter().map(|b| (b.mask, b.until)));
            let here = taken.filter(|(mask, _)| mask & nodes[leaf].mask != 0);
            here.map(|(_, until)| until.unwrap_or(NEVER)).max().unwrap_or(0)
        };
        let free = problem.gpus.iter().flat_map(|g| leaves().map(move |l| (g, l))).map(free).collect();
        let shortest = problem.costs.create.iter().copied().min().unwrap_or(0);
        Self { create: if problem.starts_empty() { shortest } else { 0 }, free }
    }
}

fn possible(table: &SearchTable<'_>, idle: &Idle, makespan: Micros) -> bool {
    let Some(rest) = makespan.checked_sub(idle.create) else { return false };
    let mut work: u64 = 0;
    for task in 0..table.tasks() {
        let fitting =
            (0..table.classes).filter(|&c| table.time(task, c) <= rest && table.time(task, c) < NEVER);
        let Some(least) = fitting.map(|c| table.work(task, c)).min() else { return false };
        work = work.saturating_add(least);
    }
    let room = idle.free.iter().map(|&until| rest.saturating_sub(until)).fold(0, u64::saturating_add);
    work <= room
}

/// The least work of one task within `makespan`, in slices held times time; `None` if it fits nowhere.
pub(super) fn least_area(table: &SearchTable<'_>, task: usize, makespan: Micros) -> Option<u64> {
    let area = |p: usize| {
        let place = table.place(p);
        let time = table.time(task, place.class);
        let fits = time < NEVER && place.create + time <= makespan;
        fits.then(|| u64::from(place.leaves.count_ones()) * time)
    };
    members(table.all_places()).filter_map(area).min()
}
