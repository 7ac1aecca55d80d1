//! Policy `tessera`, the default: starts from FAR's family, searches locally, then exactly for small batches.

use super::area_bound::by_area;
use super::exact_search::{prove, raise};
use super::local_search::LocalSearch;
use super::paper::{Choices, FarPlanner};
use super::problem::{GpuNow, Micros, Problem};
use super::schedule::{Run, Schedule};
use super::steps::Steps;
use super::table::SearchTable;

/// Steps per millisecond of budget, measured on one core of an ordinary server: 50 ms of budget stay below 50 ms.
pub const STEPS_PER_MS: u64 = 5_000;

/// Batches up to this size are worth an exact search; larger ones never finish.
const EXACT_TASKS: usize = 16;

/// Up to this size the exact search mostly finishes and gets most of the budget; beyond it only the lucky ones do.
const SURE_TASKS: usize = 12;

/// A plan and what is known about it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Runs and reconfigurations.
    pub schedule: Schedule,
    /// A bound: no schedule ends earlier than this, µs.
    pub lower_bound: Micros,
    /// Whether the plan's makespan is the lower bound.
    pub proven_optimal: bool,
    /// Steps that were used, at most the budget.
    pub steps: u64,
}

/// Plans within `budget` steps; see [`STEPS_PER_MS`]. The same problem and budget give the same plan.
///
/// Steps count the optional work only. Always done are the bound of areas, phase 1, one member of the family, its timing
/// and policy `far` itself; the plan is never worse than that policy's. This work grows with the tasks and their logarithm,
/// one to two milliseconds per thousand tasks, so a batch of more than about 30 000 takes longer than a budget of 50 ms.
#[must_use]
pub fn best(problem: &Problem, budget: u64) -> Plan {
    let table = SearchTable::new(problem);
    let floor = by_area(&table);
    if table.tasks() == 0 {
        return Plan { schedule: Schedule::default(), lower_bound: 0, proven_optimal: true, steps: 0 };
    }
    let mut steps = Steps(budget);
    let mut planner = FarPlanner::new(&table);
    let start = planner.start(&mut steps);
    let mut search = LocalSearch::new(&table, &start, &mut steps);
    if let Some(sites) = as_if_empty(problem, &table, &mut steps) {
        search.consider(&sites, &mut steps);
    }
    let mut bound = floor;
    let mut better: Option<Schedule> = None;
    let exact = problem.starts_empty() && table.tasks() <= EXACT_TASKS;
    search.anneal(budget / 10, floor, &mut steps);
    polish(&mut search, &mut steps);
    if exact {
        let mut share = Steps(if table.tasks() <= SURE_TASKS { steps.0 / 5 * 4 } else { steps.0 / 6 });
        let given = share.0;
        if let Some(proven) = prove(&table, &mut search, floor, &mut share) {
            bound = bound.max(proven.bound);
            better = proven.better;
        }
        steps.take(given - share.0);
    }
    // If the search did not finish, a part of the steps still finds a better bound than areas do.
    let kept = if exact && bound == floor { steps.0 / 5 } else { 0 };
    let target = better.as_ref().map_or(Micros::MAX, Schedule::makespan);
    while search.best.makespan.min(target) > bound && steps.0 > kept + 1000 {
        search.anneal((steps.0 - kept).min(budget / 4), bound, &mut steps);
        polish(&mut search, &mut steps);
    }
    if kept > 0 {
        bound = raise(&table, &mut search, bound, &mut steps);
    }
    let mut schedule = match better {
        Some(better) if target < search.best.makespan => better,
        _ => search.schedule(),
    };
    if schedule.makespan() > bound {
        // The search times reconfigurations one way only; FAR also tries the other.
        let far = planner.far(Choices::Wide).schedule;
        if far.makespan() < schedule.makespan() {
            schedule = far;
        }
    }
    let proven_optimal = schedule.makespan() <= bound;
    Plan { schedule, lower_bound: bound, proven_optimal, steps: budget - steps.0 }
}

/// The assignment for the same GPUs if they were empty, found with a third of the budget. Empty GPUs can be searched
/// exactly, and an assignment that begins as the present instances come free is never much worse than one that waits for
/// all of them. `None` if the GPUs are empty, or if instances of unknown end make some places impossible.
fn as_if_empty(problem: &Problem, table: &SearchTable<'_>, steps: &mut Steps) -> Option<Vec<u32>> {
    if problem.starts_empty() || table.usable.iter().any(|&places| places != table.all_places()) {
        return None;
    }
    let gpus = problem.gpus.iter().map(|g| GpuNow { lane: g.lane, ..GpuNow::default() }).collect();
    let plan = best(&Problem { gpus, busy: Vec::new(), ..problem.clone() }, steps.0 / 3);
    steps.take(plan.steps);
    let site = |r: &Run| u32::try_from(table.base(r.gpu) + r.node).unwrap_or(u32::MAX);
    Some(plan.schedule.runs.iter().map(site).collect())
}

/// Polishes with a quarter of what is left: in large batches the neighbourhood alone would eat all of it.
fn polish(search: &mut LocalSearch<'_>, steps: &mut Steps) {
    let given = steps.0 / 4;
    let mut share = Steps(given);
    search.polish(&mut share);
    steps.take(given - share.0);
}
