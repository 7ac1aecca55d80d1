//! Policy `far`: the paper's three phases, nothing else.

use super::family::{Family, Tie, has_ties};
use super::list::{Lists, Scratch, Sorted, schedule};
use super::problem::{Micros, Problem};
use super::refine::{Operations, refine};
use super::schedule::Schedule;
use super::table::{NEVER, Table};
use super::timing::{Order, Rule, Timing};

/// What FAR found.
#[derive(Clone, Debug)]
pub struct Far {
    /// The plan.
    pub schedule: Schedule,
    /// Makespan after phase 2, µs: what refinement started from.
    pub unrefined: Micros,
    /// What refinement did; kept even if it did not pay and `schedule` is phase 2's.
    pub operations: Operations,
}

/// Plans with FAR. The GPUs are taken as empty: see [`super::concat`] for any other state.
///
/// Two things the paper leaves open are tried both ways and the better plan is kept: which of two sizes of equal work
/// counts (see the family), and, in the last step, whether the reconfiguration that became possible first comes first
/// or the one with most work behind it.
#[must_use]
pub fn far(problem: &Problem) -> Far {
    let table = Table::new(problem);
    let mut planner = Planner::new(&table);
    let far = planner.plan(Tie::Smaller);
    if !has_ties(&table) {
        return far;
    }
    let other = planner.plan(Tie::Larger);
    if other.schedule.makespan() < far.schedule.makespan() { other } else { far }
}

struct Planner<'a> {
    table: &'a Table<'a>,
    sorted: Sorted,
    scratch: Scratch,
    timing: Timing,
    ends: Vec<Micros>,
}

impl<'a> Planner<'a> {
    fn new(table: &'a Table<'a>) -> Self {
        let (sorted, scratch, timing) = (Sorted::new(table), Scratch::new(table), Timing::new(table));
        Self { table, sorted, scratch, timing, ends: Vec::new() }
    }

    /// Phases 1 and 2: the lists of the family's best member.
    fn best_member(&mut self, tie: Tie) -> Lists {
        let family = Family::new(self.table, tie);
        let mut sizes = Vec::with_capacity(self.table.tasks());
        let mut best = (NEVER, 0);
        let mut lists = Lists { tasks: vec![Vec::new(); self.table.sites()] };
        for index in family.by_bound() {
            // Bounds ascend: no later member can be better. On a tie the earlier member of the family wins.
            if family.bounds[index as usize] > best.0 {
                break;
            }
            family.member(index, &mut sizes);
            if let Some(makespan) = schedule(self.table, &self.sorted, &sizes, best.0, &mut self.scratch)
                && (makespan, index) < best
            {
                best = (makespan, index);
                self.scratch.copy(&mut lists);
            }
        }
        lists
    }

    /// All three phases.
    fn plan(&mut self, tie: Tie) -> Far {
        let table = self.table;
        let mut lists = self.best_member(tie);
        let orders = vec![Order::Down; table.gpus()];
        let before = loads(table, &lists);
        let unrefined = self.timing.run(table, &before, &orders, Rule::Fifo);
        self.timing.leaf_ends(table, &mut self.ends);
        let mut best = (unrefined, self.timing.schedule(table, &lists));
        let operations = refine(table, &mut lists, &mut self.ends);
        let after = loads(table, &lists);
        for rule in [Rule::Fifo, Rule::Tail] {
            if self.timing.run(table, &after, &orders, rule) < best.0 {
                best = (self.timing.makespan, self.timing.schedule(table, &lists));
            }
        }
        Far { schedule: best.1, unrefined, operations }
    }
}

/// Task time per site, µs.
pub(super) fn loads(table: &Table<'_>, lists: &Lists) -> Vec<Micros> {
    let load = |(site, tasks): (usize, &Vec<u32>)| -> Micros {
        tasks.iter().map(|&t| table.time(t as usize, table.class(site))).sum()
    };
    lists.tasks.iter().enumerate().map(load).collect()
}
