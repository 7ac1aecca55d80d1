//! Policy `far`: the paper's three phases, nothing else.

use super::chain::Releases;
use super::family::{Family, Tie, has_ties};
use super::list::{Lists, Scratch, Sorted, schedule};
use super::local::{Steps, timing_price};
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

/// Plans with FAR. On GPUs that are not empty the schedule is made as if they were, then timed after what they hold: as
/// it is, reversed (section 4.2), and reversed after more moves and swaps with the slices' idle time in the place of the
/// margin (section 4.3), whichever ends first.
///
/// Two things the paper leaves open are tried both ways and the better plan is kept: which of two sizes of equal work
/// counts (see the family), and, in the last step, whether the reconfiguration that became possible first comes first
/// or the one with most work behind it.
#[must_use]
pub fn far(problem: &Problem) -> Far {
    let table = Table::new(problem);
    Planner::new(&table).far()
}

pub(super) struct Planner<'a> {
    table: &'a Table<'a>,
    sorted: Sorted,
    scratch: Scratch,
    timing: Timing,
    ends: Vec<Micros>,
    /// The best member's tasks and sites, in the order they were placed.
    placed: Vec<(u32, u32)>,
}

impl<'a> Planner<'a> {
    pub(super) fn new(table: &'a Table<'a>) -> Self {
        let (sorted, scratch, timing) = (Sorted::new(table), Scratch::new(table), Timing::new(table));
        Self { table, sorted, scratch, timing, ends: Vec::new(), placed: Vec::new() }
    }

    /// The better of both ways to break ties of equal work.
    pub(super) fn far(&mut self) -> Far {
        let lists = self.best_member(Tie::Smaller);
        let far = self.plan(lists);
        if !has_ties(self.table) {
            return far;
        }
        let first = std::mem::take(&mut self.placed);
        let lists = self.best_member(Tie::Larger);
        if self.placed == first {
            return far;
        }
        let other = self.plan(lists);
        if other.schedule.makespan() < far.schedule.makespan() { other } else { far }
    }

    /// Phases 1 and 2: the lists of the family's best member.
    fn best_member(&mut self, tie: Tie) -> Lists {
        let family = Family::new(self.table, tie);
        let mut sizes = Vec::with_capacity(self.table.tasks());
        let mut best = (NEVER, 0);
        self.placed.clear();
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
                self.placed.clone_from(&self.scratch.placed);
            }
        }
        Lists::of(self.table, &self.placed)
    }

    /// Every promising member of the family, refined: the site of each task in the best of them. A member is promising
    /// while its bound is below the best makespan found; members cost steps in proportion to their tasks.
    pub(super) fn start(&mut self, steps: &mut Steps) -> Vec<u32> {
        let table = self.table;
        let orders = vec![Order::Down; table.gpus()];
        let mut sizes = Vec::with_capacity(table.tasks());
        let mut best = (NEVER, Vec::new());
        let price = 30 + table.tasks() as u64 / 2 + 2 * timing_price(table);
        for tie in [Tie::Smaller, Tie::Larger] {
            let family = Family::new(table, tie);
            for index in family.by_bound() {
                let promising = family.bounds[index as usize] < best.0;
                if !promising || (best.0 < NEVER && steps.0 < price) {
                    break;
                }
                steps.take(price);
                family.member(index, &mut sizes);
                if schedule(table, &self.sorted, &sizes, NEVER, &mut self.scratch).is_none() {
                    continue;
                }
                let mut lists = Lists::of(table, &self.scratch.placed);
                for refined in [false, true] {
                    if refined {
                        self.timing.leaf_ends(table, &mut self.ends);
                        refine(table, &mut lists, &mut self.ends);
                    }
                    let makespan = self.timing.run(table, &loads(table, &lists), &orders, Rule::Tail);
                    if makespan < best.0 {
                        best = (makespan, sites(table, &lists));
                    }
                }
            }
        }
        best.1
    }

    /// Phase 3 and the final times.
    fn plan(&mut self, mut lists: Lists) -> Far {
        let table = self.table;
        let orders = vec![Order::Down; table.gpus()];
        let before = loads(table, &lists);
        let unrefined = self.timing.run(table, &before, &orders, Rule::Fifo);
        self.timing.leaf_ends(table, &mut self.ends);
        let mut best = (unrefined, self.timing.schedule(table, &lists));
        let mut operations = refine(table, &mut lists, &mut self.ends);
        let untimed = if operations == Operations::default() { &[Rule::Tail][..] } else { &BOTH };
        self.time_all_ways(&lists, &[Order::Down], untimed, &mut best);
        if !table.problem.starts_empty() {
            self.time_all_ways(&lists, &[Order::Up], &BOTH, &mut best);
            let loads = loads(table, &lists);
            for gpu in 0..table.gpus() {
                Releases::new(table, gpu).chain_ends(table, gpu, &loads, &mut self.ends);
            }
            let more = refine(table, &mut lists, &mut self.ends);
            operations.moves += more.moves;
            operations.swaps += more.swaps;
            self.time_all_ways(&lists, &[Order::Up, Order::Down], &BOTH, &mut best);
        }
        Far { schedule: best.1, unrefined, operations }
    }

    /// Times `lists` with each of the rules in each of the orders, all GPUs alike.
    fn time_all_ways(
        &mut self,
        lists: &Lists,
        orders: &[Order],
        rules: &[Rule],
        best: &mut (Micros, Schedule),
    ) {
        let loads = loads(self.table, lists);
        for &order in orders {
            let orders = vec![order; self.table.gpus()];
            for &rule in rules {
                if self.timing.run(self.table, &loads, &orders, rule) < best.0 {
                    *best = (self.timing.makespan, self.timing.schedule(self.table, lists));
                }
            }
        }
    }
}

const BOTH: [Rule; 2] = [Rule::Fifo, Rule::Tail];

/// The site of every task.
fn sites(table: &Table<'_>, lists: &Lists) -> Vec<u32> {
    let mut sites = vec![0; table.tasks()];
    for (site, tasks) in (0u32..).zip(&lists.tasks) {
        tasks.iter().for_each(|&t| sites[t as usize] = site);
    }
    sites
}

/// Task time per site, µs.
pub(super) fn loads(table: &Table<'_>, lists: &Lists) -> Vec<Micros> {
    let load = |(site, tasks): (usize, &Vec<u32>)| -> Micros {
        tasks.iter().map(|&t| table.time(t as usize, table.class(site))).sum()
    };
    lists.tasks.iter().enumerate().map(load).collect()
}
