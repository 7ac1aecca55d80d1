//! Policy `far`: the paper's three phases. [`far_wide`] tries more than the paper does.

use super::chain_length::Releases;
use super::family::{Family, Tie};
use super::list_scheduling::{Scratch, SortedTasks, schedule};
use super::local_search::timing_price;
use super::problem::{Micros, Problem};
use super::refine::{Operations, refine};
use super::schedule::Schedule;
use super::steps::Steps;
use super::table::{NEVER, SearchTable};
use super::task_lists::TaskLists;
use super::timing::{Rule, Timing, VisitOrder};

/// What FAR found.
#[derive(Clone, Debug)]
pub struct Far {
    /// The best schedule found.
    pub schedule: Schedule,
    /// Makespan after phase 2, before refinement, µs.
    pub unrefined: Micros,
    /// Makespan after phase 3 with reconfigurations still in the order of Algorithm 1, µs; that of phase 2 if it is better.
    pub refined: Micros,
    /// What refinement did, even if `schedule` is that of phase 2 because refinement made it no better.
    pub operations: Operations,
    /// What followed on GPUs that are not empty; all zero on empty ones.
    pub overlap: Overlap,
}

/// How a schedule was fitted behind what the GPUs hold (section 4 of the paper).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overlap {
    /// Makespan of the better of both directions, before tasks are moved or swapped into the overlap, µs.
    pub turned: Micros,
    /// The moves and swaps into the overlap, even if they made the schedule no better.
    pub operations: Operations,
}

/// Plans with FAR as the paper has it: of two sizes of equal work the smaller one counts, and reconfigurations are in the order
/// of Algorithm 1. A plan that refinement makes longer, because of its reconfigurations, stays that of phase 2.
///
/// If the GPUs are not empty, the schedule is made as if they were and then timed behind what they hold, in three ways: as it
/// is, reversed (section 4.2), and reversed after more moves and swaps that use the slices' idle time as the margin (section
/// 4.3). The one that ends first is the answer. The paper reverses each batch against the one before it; which direction that
/// one had, the GPUs do not say.
#[must_use]
pub fn far(problem: &Problem) -> Far {
    FarPlanner::new(&SearchTable::new(problem)).far(Choices::Paper)
}

/// Plans with FAR and two choices that the paper does not leave open. Both ways are tried and the better plan is kept: which
/// of two sizes of equal work counts, and whether reconfigurations are in the order of Algorithm 1 or in that of the work
/// behind them. The default policy begins with this plan.
#[must_use]
pub fn far_wide(problem: &Problem) -> Far {
    FarPlanner::new(&SearchTable::new(problem)).far(Choices::Wide)
}

/// Choices that a plan may try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choices {
    /// See [`far`].
    Paper,
    /// See [`far_wide`].
    Wide,
}

impl Choices {
    fn rules(self) -> &'static [Rule] {
        match self {
            Self::Paper => &[Rule::Fifo],
            Self::Wide => &[Rule::Fifo, Rule::Tail],
        }
    }
}

pub(super) struct FarPlanner<'a> {
    table: &'a SearchTable<'a>,
    sorted: SortedTasks,
    scratch: Scratch,
    family: Family,
    order: Vec<(Micros, u32)>,
    ends: Vec<Micros>,
    loads: Vec<Micros>,
    /// `[Down, ...]`, then `[Up, ...]`: all GPUs alike.
    orders: Vec<VisitOrder>,
    timing: Timing,
    lists: TaskLists,
    /// The best member's tasks and sites, in the order they were placed.
    placed: Vec<(u32, u32)>,
    best: Best,
}

/// The best plan so far: its lists as they were timed.
struct Best {
    makespan: Micros,
    timing: Timing,
    lists: TaskLists,
}

impl<'a> FarPlanner<'a> {
    pub(super) fn new(table: &'a SearchTable<'a>) -> Self {
        let orders = [VisitOrder::Down, VisitOrder::Up].map(|order| std::iter::repeat_n(order, table.gpus()));
        let best = Best { makespan: Micros::MAX, timing: Timing::new(table), lists: TaskLists::default() };
        Self {
            table,
            sorted: SortedTasks::new(table),
            scratch: Scratch::new(table),
            family: Family::new(table),
            order: Vec::with_capacity(4 * table.tasks()),
            ends: Vec::with_capacity(table.sites()),
            loads: Vec::with_capacity(table.sites()),
            orders: orders.into_iter().flatten().collect(),
            timing: Timing::new(table),
            lists: TaskLists::default(),
            placed: Vec::with_capacity(table.tasks()),
            best,
        }
    }

    pub(super) fn far(&mut self, choices: Choices) -> Far {
        self.best.makespan = Micros::MAX;
        let likely = self.best_member(Tie::Smaller, 0).unwrap_or(0);
        let tied = self.family.tied;
        let mut steps = self.plan(choices);
        if tied && choices == Choices::Wide {
            let first = std::mem::take(&mut self.placed);
            let before = self.best.makespan;
            if self.best_member(Tie::Larger, likely).is_some() && self.placed != first {
                let other = self.plan(choices);
                if self.best.makespan < before {
                    steps = other;
                }
            }
        }
        let Phases { unrefined, refined, operations, overlap } = steps;
        let schedule = self.best.timing.schedule(self.table, &self.best.lists);
        Far { schedule, unrefined, refined, operations, overlap }
    }

    /// Phases 1 and 2: places the family's best member, and returns which it is; `None` if no plan of its sizes can be
    /// better than `best`. The member `likely` is tried first: the sooner a good one is found, the sooner the others are
    /// given up.
    fn best_member(&mut self, tie: Tie, likely: u32) -> Option<u32> {
        self.family.fill(self.table, tie, &self.sorted, &mut self.scratch.queues);
        self.placed.clear();
        // No list schedule begins a task before the first creation, and on empty GPUs no plan does.
        let create = self.table.problem.costs.create.iter().copied().min().unwrap_or(0);
        let waits = if self.table.problem.starts_empty() { create } else { 0 };
        let target = self.best.makespan - waits;
        self.by_bound();
        let mut best = (NEVER, u32::MAX);
        // The bound of the best member.
        let mut least = NEVER;
        if likely > 0 && (likely as usize) < self.order.len() {
            self.try_member(likely, &mut best);
            least = self.family.members[likely as usize].bound;
        }
        for k in 0..self.order.len() {
            let (bound, index) = self.order[k];
            // Bounds ascend: no later member can be better. On a tie the earlier member of the family wins. And where
            // neither the best member nor one still to come can lead to a better plan, it does not matter which is best.
            if bound + create > best.0 || least.min(bound) >= target {
                break;
            }
            if index != best.1 {
                self.try_member(index, &mut best);
                if index == best.1 {
                    least = bound;
                }
            }
        }
        (least < target).then_some(best.1)
    }

    /// Members, lowest bound first.
    fn by_bound(&mut self) {
        self.order.clear();
        self.order.extend(self.family.members.iter().map(|m| m.bound).zip(0..));
        self.order.sort_unstable();
    }

    fn try_member(&mut self, index: u32, best: &mut (Micros, u32)) {
        let made = self.member(index, best.0);
        if let Some(makespan) = made
            && (makespan, index) < *best
        {
            *best = (makespan, index);
            self.placed.clone_from(&self.scratch.placed);
        }
    }

    /// Schedules a member of the family; see [`schedule`].
    fn member(&mut self, index: u32, limit: Micros) -> Option<Micros> {
        let k = index as usize;
        self.family.go(k, &self.sorted, &mut self.scratch.queues);
        schedule(self.table, &self.sorted, self.family.members[k].area, limit, &mut self.scratch)
    }

    /// Every promising member of the family, refined: the site of each task in the best of them. A member is promising
    /// while its bound is below the best makespan found; members cost steps in proportion to their tasks.
    pub(super) fn start(&mut self, steps: &mut Steps) -> Vec<u32> {
        let table = self.table;
        let mut best = (NEVER, Vec::new());
        let price = 30 + table.tasks() as u64 / 2 + 2 * timing_price(table);
        for tie in [Tie::Smaller, Tie::Larger] {
            self.family.fill(table, tie, &self.sorted, &mut self.scratch.queues);
            self.by_bound();
            for k in 0..self.order.len() {
                let (bound, index) = self.order[k];
                if bound >= best.0 || (best.0 < NEVER && steps.0 < price) {
                    break;
                }
                steps.take(price);
                if self.member(index, NEVER).is_none() {
                    continue;
                }
                self.lists.fill(table, self.scratch.placed.iter().copied());
                for refined in [false, true] {
                    if refined {
                        self.timing.leaf_ends(table, &mut self.ends);
                        refine(table, &mut self.lists, &mut self.ends);
                    }
                    set_loads(table, &self.lists, &mut self.loads);
                    let makespan = self.timing.run(table, &self.loads, &self.orders, Rule::Tail);
                    if makespan < best.0 {
                        best = (makespan, sites(table, &self.lists));
                    }
                }
            }
        }
        best.1
    }

    /// Phase 3 and the final times of the member that is placed; kept in `best` if it is better.
    fn plan(&mut self, choices: Choices) -> Phases {
        let table = self.table;
        self.lists.fill(table, self.placed.iter().copied());
        set_loads(table, &self.lists, &mut self.loads);
        let unrefined = self.timing.run(table, &self.loads, &self.orders, Rule::Fifo);
        self.timing.leaf_ends(table, &mut self.ends);
        if unrefined < self.best.makespan {
            self.keep(unrefined);
        }
        let operations = refine(table, &mut self.lists, &mut self.ends);
        let mut refined = unrefined;
        if operations != Operations::default() {
            refined = refined.min(self.time_all_ways(&[VisitOrder::Down], &[Rule::Fifo]));
        }
        let mut turned = unrefined;
        if choices == Choices::Wide {
            turned = turned.min(self.time_all_ways(&[VisitOrder::Down], &[Rule::Tail]));
        }
        let mut overlap = Overlap::default();
        if !table.problem.starts_empty() {
            turned = turned.min(refined).min(self.time_all_ways(&[VisitOrder::Up], choices.rules()));
            for gpu in 0..table.gpus() {
                Releases::new(table, gpu).chain_ends(table, gpu, &self.loads, &mut self.ends);
            }
            overlap = Overlap { turned, operations: refine(table, &mut self.lists, &mut self.ends) };
            self.time_all_ways(&[VisitOrder::Up, VisitOrder::Down], choices.rules());
        }
        Phases { unrefined, refined, operations, overlap }
    }

    /// Times the lists with each of the rules in each of the orders, all GPUs alike. Returns the makespan of the best
    /// that is better than `best` was.
    fn time_all_ways(&mut self, orders: &[VisitOrder], rules: &[Rule]) -> Micros {
        let table = self.table;
        let before = self.best.makespan;
        set_loads(table, &self.lists, &mut self.loads);
        for &order in orders {
            let from = if order == VisitOrder::Down { 0 } else { table.gpus() };
            let orders = from..from + table.gpus();
            for &rule in rules {
                let limit = self.best.makespan;
                let orders = &self.orders[orders.clone()];
                if let Some(makespan) = self.timing.run_below(table, &self.loads, orders, rule, limit) {
                    self.keep(makespan);
                }
            }
        }
        if self.best.makespan < before { self.best.makespan } else { Micros::MAX }
    }

    /// What was timed last is the best.
    fn keep(&mut self, makespan: Micros) {
        self.best.makespan = makespan;
        std::mem::swap(&mut self.best.timing, &mut self.timing);
        self.best.lists.clone_from(&self.lists);
    }
}

/// See [`Far`].
struct Phases {
    unrefined: Micros,
    refined: Micros,
    operations: Operations,
    overlap: Overlap,
}

/// The site of every task.
fn sites(table: &SearchTable<'_>, lists: &TaskLists) -> Vec<u32> {
    let mut sites = vec![0; table.tasks()];
    for (site, (_, tasks)) in (0u32..).zip(lists.iter()) {
        tasks.iter().for_each(|&t| sites[t as usize] = site);
    }
    sites
}

/// Task time per site, µs.
fn set_loads(table: &SearchTable<'_>, lists: &TaskLists, loads: &mut Vec<Micros>) {
    let load = |(site, tasks): (usize, &[u32])| -> Micros {
        let class = table.class(site);
        tasks.iter().map(|&t| table.time(t as usize, class)).sum()
    };
    loads.clear();
    loads.extend(lists.iter().map(load));
}
