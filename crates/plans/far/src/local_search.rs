//! Local search over assignments of tasks to places: moves and swaps across sizes, places and GPUs.
//!
//! Threshold acceptance with a falling temperature. Temperatures and choices come from a fixed sequence of numbers, so the
//! same problem and the same budget give the same plan on every machine.

use super::chain_length::{Releases, estimate};
use super::problem::Micros;
use super::steps::Steps;
use super::table::{NEVER, SearchTable, Site};
use super::task_lists::TaskLists;
use super::timing::{Rule, Timing, VisitOrder};

/// The best assignment so far and its timing.
#[derive(Clone)]
pub(super) struct BestKnown {
    pub(super) makespan: Micros,
    pub(super) sites: Vec<u32>,
    pub(super) orders: Vec<VisitOrder>,
}

/// A fixed sequence of numbers (64-bit xorshift).
struct FixedNumbers(u64);

impl FixedNumbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        let wide = (self.next() >> 32) * n as u64;
        usize::try_from(wide >> 32).unwrap_or(0)
    }

    /// Exponentially distributed, about `mean`: leading zeros count halvings, and the bits below fill the steps.
    fn wait(&mut self, mean: Micros) -> Micros {
        let bits = self.next();
        let halvings = u64::from(bits.leading_zeros().min(20));
        mean * (halvings * 256 + (bits & 255)) / 369
    }
}

pub(super) struct LocalSearch<'a> {
    table: &'a SearchTable<'a>,
    releases: Vec<Releases>,
    timing: Timing,
    sequence: FixedNumbers,
    /// The sites of each set of classes that some task can run at, and which of these sets a task has.
    choices: Vec<Vec<u32>>,
    choice: Vec<usize>,
    /// Steps that a timing costs, and a proposal: both grow with the number of GPUs.
    timing_price: u64,
    price: u64,
    sites: Vec<u32>,
    loads: Vec<Micros>,
    values: Vec<Micros>,
    orders: Vec<VisitOrder>,
    work: u64,
    pub(super) best: BestKnown,
}

impl<'a> LocalSearch<'a> {
    /// Starts from `start`, which is timed here; its orders are tried as far as the steps reach.
    pub(super) fn new(table: &'a SearchTable<'a>, start: &[u32], steps: &mut Steps) -> Self {
        let (choices, choice) = choices(table);
        let orders = vec![VisitOrder::Down; table.gpus()];
        let mut search = Self {
            table,
            releases: (0..table.gpus()).map(|g| Releases::new(table, g)).collect(),
            timing: Timing::new(table),
            sequence: FixedNumbers(0x2545_f491_4f6c_dd1d),
            choices,
            choice,
            timing_price: timing_price(table),
            price: 1 + table.gpus() as u64 / 8,
            sites: start.to_vec(),
            loads: vec![0; table.sites()],
            values: vec![0; table.gpus()],
            best: BestKnown { makespan: Micros::MAX, sites: start.to_vec(), orders: orders.clone() },
            orders,
            work: 0,
        };
        search.restart(start);
        search.try_orders(steps);
        search
    }

    /// Takes `sites` as the present assignment and as the best if it is.
    pub(super) fn restart(&mut self, sites: &[u32]) -> Micros {
        self.sites.copy_from_slice(sites);
        self.loads.fill(0);
        self.work = 0;
        for (task, &site) in sites.iter().enumerate() {
            let class = self.table.class(site as Site);
            self.loads[site as Site] += self.table.time(task, class);
            self.work += self.table.work(task, class);
        }
        for gpu in 0..self.table.gpus() {
            self.values[gpu] = self.value(gpu);
        }
        self.keep_if_best();
        self.timing.makespan
    }

    /// Times another assignment in the order of the best one; keeps it if it is better. Returns its makespan.
    pub(super) fn consider(&mut self, sites: &[u32], steps: &mut Steps) -> Micros {
        let before = self.best.makespan;
        steps.take(self.timing_price);
        self.orders.clone_from(&self.best.orders);
        let made = self.restart(sites);
        if made < before {
            return made;
        }
        let best = self.best.makespan;
        self.try_orders(steps);
        if self.best.makespan < best { self.best.makespan } else { made }
    }

    /// Tries both orders on every GPU, one at a time.
    fn try_orders(&mut self, steps: &mut Steps) {
        for gpu in 0..self.table.gpus() {
            for order in [VisitOrder::Up, VisitOrder::Down] {
                if !steps.take(self.timing_price) {
                    break;
                }
                self.orders.clone_from(&self.best.orders);
                self.orders[gpu] = order;
                self.keep_if_best();
            }
        }
        self.orders.clone_from(&self.best.orders);
        for gpu in 0..self.table.gpus() {
            self.values[gpu] = self.value(gpu);
        }
    }

    fn value(&self, gpu: usize) -> Micros {
        let base = self.table.base(gpu);
        let loads = &self.loads[base..base + self.table.places];
        estimate(self.table, &self.releases[gpu], loads, self.orders[gpu])
    }

    /// The estimate, plus a little for work and for the other GPUs: what makes room helps a later move.
    fn energy(&self) -> Micros {
        let longest = self.values.iter().copied().max().unwrap_or(0);
        let mean = self.values.iter().sum::<Micros>() / self.values.len().max(1) as u64;
        longest + mean / 16 + self.work / self.table.slices() / 8
    }

    fn keep_if_best(&mut self) -> bool {
        let makespan = self.timing.run(self.table, &self.loads, &self.orders, Rule::Tail);
        if makespan < self.best.makespan {
            self.best.makespan = makespan;
            self.best.sites.clone_from(&self.sites);
            self.best.orders.clone_from(&self.orders);
            return true;
        }
        false
    }

    fn put(&mut self, task: usize, site: u32) {
        let old = self.sites[task] as Site;
        let (from, to) = (self.table.class(old), self.table.class(site as Site));
        self.loads[old] -= self.table.time(task, from);
        self.loads[site as Site] += self.table.time(task, to);
        self.work = self.work + self.table.work(task, to) - self.table.work(task, from);
        self.sites[task] = site;
    }

    /// Values the GPUs of two sites again; returns what they were.
    fn revalue(&mut self, a: u32, b: u32) -> (Micros, Micros) {
        let (a, b) = (self.table.gpu(a as Site), self.table.gpu(b as Site));
        let before = (self.values[a], self.values[b]);
        self.values[a] = self.value(a);
        if b != a {
            self.values[b] = self.value(b);
        }
        before
    }

    /// One descent from a high to a low temperature in `budget` steps, from the best assignment so far. Ends early when
    /// `target` (a lower bound) is reached.
    pub(super) fn anneal(&mut self, budget: u64, target: Micros, steps: &mut Steps) {
        let best = self.best.clone();
        self.orders.clone_from(&best.orders);
        self.restart(&best.sites);
        let mut energy = self.energy();
        // From a twelfth of the mean task time (less in large batches, whose plans differ by less) to a hundredth of that:
        // two hundred temperatures, each 44/45 of the last.
        let tasks = self.table.tasks().max(1) as u64;
        let mean = self.loads.iter().sum::<Micros>() / tasks;
        let hottest = (mean * 3 / tasks.max(36)).max(1);
        let mut temperature = hottest;
        let per_temperature = (budget / 200).max(1);
        let mut left = per_temperature;
        while self.best.makespan > target && temperature > hottest / 85 && steps.take(self.price) {
            left -= 1;
            if left == 0 {
                left = per_temperature;
                temperature -= temperature.div_ceil(45);
            }
            let Some(undo) = self.propose() else { continue };
            let next = self.energy();
            if next <= energy + self.sequence.wait(temperature) {
                energy = next;
                let longest = self.values.iter().copied().max().unwrap_or(0);
                if longest < self.best.makespan && steps.take(self.timing_price) {
                    self.keep_if_best();
                }
            } else {
                self.undo(&undo);
            }
        }
    }

    /// Tries every move and every swap around the best assignment, timing those whose estimate is near it, until none is
    /// better: annealing steers by the estimate, which is a little off.
    pub(super) fn polish(&mut self, steps: &mut Steps) {
        while steps.take(self.timing_price) {
            let before = self.best.clone();
            self.orders.clone_from(&before.orders);
            self.restart(&before.sites);
            for a in 0..self.table.tasks() {
                for k in 0..self.choices[self.choice[a]].len() {
                    let site = self.choices[self.choice[a]][k];
                    self.try_change(a, site, None, steps);
                }
                for b in 0..a {
                    self.try_change(a, self.sites[b], Some(b), steps);
                }
                if steps.0 == 0 {
                    return;
                }
            }
            if self.best.makespan >= before.makespan {
                return;
            }
        }
    }

    /// Moves `a` to `site`, and `b`, which is there, to where `a` was; keeps that if it is better than the best.
    fn try_change(&mut self, a: usize, site: u32, b: Option<usize>, steps: &mut Steps) {
        let from = self.sites[a];
        let fits = |task: usize, site: u32| self.table.time(task, self.table.class(site as Site)) < NEVER;
        if site == from || !fits(a, site) || b.is_some_and(|b| !fits(b, from)) || !steps.take(self.price) {
            return;
        }
        self.put(a, site);
        if let Some(b) = b {
            self.put(b, from);
        }
        let values = self.revalue(from, site);
        let longest = self.values.iter().copied().max().unwrap_or(0);
        let near = longest <= self.best.makespan + self.best.makespan / 200;
        let better = near && steps.take(self.timing_price) && self.keep_if_best();
        if !better {
            self.undo(&Undo { a, from, b, to: site, values });
        }
    }

    fn propose(&mut self) -> Option<Undo> {
        let a = self.sequence.below(self.table.tasks());
        let from = self.sites[a];
        if self.sequence.next() & 1 == 0 {
            let choices = &self.choices[self.choice[a]];
            let to = choices[self.sequence.below(choices.len())];
            if to == from {
                return None;
            }
            self.put(a, to);
            let values = self.revalue(from, to);
            return Some(Undo { a, from, b: None, to, values });
        }
        let b = self.sequence.below(self.table.tasks());
        let to = self.sites[b];
        let fits = |task: usize, site: u32| self.table.time(task, self.table.class(site as Site)) < NEVER;
        if to == from || !fits(a, to) || !fits(b, from) {
            return None;
        }
        self.put(a, to);
        self.put(b, from);
        let values = self.revalue(from, to);
        Some(Undo { a, from, b: Some(b), to, values })
    }

    fn undo(&mut self, undo: &Undo) {
        self.put(undo.a, undo.from);
        if let Some(b) = undo.b {
            self.put(b, undo.to);
        }
        let gpu = |site: u32| self.table.gpu(site as Site);
        let (from, to) = (gpu(undo.from), gpu(undo.to));
        (self.values[from], self.values[to]) = undo.values;
    }

    /// The best assignment's schedule.
    pub(super) fn schedule(&mut self) -> super::schedule::Schedule {
        let mut loads = vec![0; self.table.sites()];
        for (task, &site) in self.best.sites.iter().enumerate() {
            loads[site as Site] += self.table.time(task, self.table.class(site as Site));
        }
        let mut lists = TaskLists::default();
        lists.fill(self.table, (0u32..).zip(self.best.sites.iter().copied()));
        lists.sort(self.table);
        self.timing.run(self.table, &loads, &self.best.orders, Rule::Tail);
        self.timing.schedule(self.table, &lists)
    }
}

/// Steps that timing all GPUs once costs: every operation looks at every GPU of its lane.
pub(super) fn timing_price(table: &SearchTable<'_>) -> u64 {
    let gpus = table.gpus() as u64;
    20 * gpus + gpus * gpus
}

/// The sites of each set of classes that some task can run at, and the index of each task's set.
fn choices(table: &SearchTable<'_>) -> (Vec<Vec<u32>>, Vec<usize>) {
    let set = |task: usize| -> u32 {
        (0..table.classes).filter(|&c| table.time(task, c) < NEVER).map(|c| 1 << c).sum()
    };
    let mut sets: Vec<u32> = Vec::new();
    let mut choice = Vec::with_capacity(table.tasks());
    for task in 0..table.tasks() {
        let set = set(task);
        choice.push(sets.iter().position(|&s| s == set).unwrap_or(sets.len()));
        if choice[task] == sets.len() {
            sets.push(set);
        }
    }
    let sites = |set: &u32| {
        let at = |&s: &u32| table.is_usable(s as Site) && set >> table.class(s as Site) & 1 == 1;
        (0u32..).take(table.sites()).filter(at).collect()
    };
    (sets.iter().map(sites).collect(), choice)
}

/// What a proposal changed.
struct Undo {
    a: usize,
    from: u32,
    b: Option<usize>,
    to: u32,
    /// Values of the two GPUs before, `from`'s first.
    values: (Micros, Micros),
}
