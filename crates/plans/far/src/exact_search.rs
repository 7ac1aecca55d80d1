//! Exact search for small batches on empty GPUs: every assignment of tasks to places that a bound does not rule out.
//!
//! Tasks are assigned one by one, largest least area first. A partial assignment is dropped when the chains of one GPU
//! already take too long ([`lower`]), when a task that is left fits nowhere any more, when the area left cannot hold those
//! tasks, each where it still fits at its least (slices that none of them fits into do not count), or when an earlier
//! sibling place with equal contents has been tried. A complete one is timed. What remains between its timing and its
//! bound is the order of reconfigurations, a few tenths of a second: when all assignments have been seen, those whose bound
//! is below the best makespan have all their orders tried ([`shortest`]), and what cannot be tried in time stays in the
//! bound.
//!
//! A search that does not finish leaves the bound of areas; [`raise`] then searches below makespans close to it, which is
//! over sooner because less fits.
//!
//! The bound holds for every schedule that creates an instance at each place at most once, which loses nothing without
//! reconfiguration times: tasks of one place can always be run together.

use super::area_bound::least_area;
use super::chain_length::lower;
use super::local_search::LocalSearch;
use super::op_order::{OutOfSteps, shortest};
use super::problem::Micros;
use super::schedule::Schedule;
use super::steps::Steps;
use super::table::{NEVER, Places, SearchTable, Site, members};
use super::task_lists::TaskLists;
use super::timing::Timing;
use super::tree::MAX_NODES;

/// The result of a search that finished.
pub(super) struct Proven {
    /// A bound: no schedule ends earlier, µs.
    pub(super) bound: Micros,
    /// A schedule that is better than `search.best`, in an order of reconfigurations that no timing finds.
    pub(super) better: Option<Schedule>,
}

/// Runs the search in at most `steps`, improving `search.best`. `None` if it did not finish.
pub(super) fn prove(
    table: &SearchTable<'_>,
    search: &mut LocalSearch<'_>,
    floor: Micros,
    steps: &mut Steps,
) -> Option<Proven> {
    let mut proof = Proof::new(table, search, floor, steps)?;
    if !proof.branch(0, 0) {
        return None;
    }
    let better = proof.orders();
    let best = better.as_ref().map_or(proof.search.best.makespan, |(makespan, _)| *makespan);
    Some(Proven { bound: proof.open.min(best), better: better.map(|(_, schedule)| schedule) })
}

/// Raises the lower bound `floor` in at most `steps` and returns the new one. A makespan between it and the best is
/// impossible if a search below it finds no assignment whose bound is shorter. The smaller that makespan, the sooner the
/// search ends.
pub(super) fn raise(
    table: &SearchTable<'_>,
    search: &mut LocalSearch<'_>,
    mut floor: Micros,
    steps: &mut Steps,
) -> Micros {
    let mut part = 4;
    while part <= 64 && search.best.makespan > floor && steps.0 > 0 {
        let limit = floor + (search.best.makespan - floor).div_ceil(part);
        let given = steps.0 / 4;
        let mut share = Steps(given);
        let ruled_out = Proof::new(table, search, floor, &mut share).is_some_and(|mut proof| {
            proof.limit = limit;
            proof.branch(0, 0)
        });
        steps.take(given - share.0);
        if ruled_out {
            floor = limit.min(search.best.makespan);
        } else {
            part *= 2;
        }
    }
    floor
}

/// Most assignments to keep for [`Proof::orders`].
const MOST: usize = 512;

struct Proof<'a, 'b, 'c> {
    table: &'a SearchTable<'a>,
    search: &'b mut LocalSearch<'c>,
    steps: &'b mut Steps,
    floor: Micros,
    /// Assignments at least as long do not matter, nor do those as long as the best. Where this is not `NEVER`, the search
    /// ends at the first that is shorter and cannot be timed as well as its bound.
    limit: Micros,
    /// Tasks in the order of assignment.
    order: Vec<usize>,
    /// Least area of the tasks from a position of `order` on.
    areas: Vec<u64>,
    /// Shortest time, per class, of the tasks from a position on.
    shortest: Vec<Vec<Micros>>,
    /// For each place the earlier sibling whose subtree looks the same, if there is one.
    twins: [Option<usize>; MAX_NODES],
    sites: Vec<u32>,
    loads: Vec<Micros>,
    /// Per site, the longest task that still fits.
    left: Vec<Micros>,
    destroy: Micros,
    create: Micros,
    /// The least bound of a complete assignment that could not be timed as well as its bound.
    open: Micros,
    /// Those that are still to have their orders tried: bound and sites.
    untried: Vec<(Micros, Vec<u32>)>,
}

impl<'a, 'b, 'c> Proof<'a, 'b, 'c> {
    fn new(
        table: &'a SearchTable<'a>,
        search: &'b mut LocalSearch<'c>,
        floor: Micros,
        steps: &'b mut Steps,
    ) -> Option<Self> {
        let limit = search.best.makespan;
        let area = |t: usize| least_area(table, t, limit);
        let mut order: Vec<(u64, usize)> =
            (0..table.tasks()).map(|t| Some((area(t)?, t))).collect::<Option<_>>()?;
        order.sort_by_key(|&(area, t)| (std::cmp::Reverse(area), t));
        let mut areas = vec![0; order.len() + 1];
        let mut shortest = vec![vec![NEVER; table.classes]; order.len() + 1];
        for (k, &(area, task)) in order.iter().enumerate().rev() {
            areas[k] = areas[k + 1] + area;
            shortest[k] = (0..table.classes).map(|c| shortest[k + 1][c].min(table.time(task, c))).collect();
        }
        let costs = &table.problem.costs;
        Some(Self {
            table,
            floor,
            limit: NEVER,
            areas,
            shortest,
            twins: twins(table),
            sites: vec![0; table.tasks()],
            loads: vec![0; table.sites()],
            left: vec![0; table.sites()],
            destroy: costs.destroy.iter().copied().min().unwrap_or(0),
            create: costs.create.iter().copied().min().unwrap_or(0),
            open: NEVER,
            untried: Vec::new(),
            order: order.into_iter().map(|(_, t)| t).collect(),
            search,
            steps,
        })
    }

    /// Assigns the tasks from position `k` on; `used` GPUs have a task already. False when the steps are spent.
    fn branch(&mut self, k: usize, used: usize) -> bool {
        if self.search.best.makespan <= self.floor {
            return true;
        }
        let Some(&task) = self.order.get(k) else { return self.complete() };
        // Empty GPUs are alike: the first of them stands for all.
        for gpu in 0..self.table.gpus().min(used + 1) {
            let base = self.table.base(gpu);
            let alike = self.alike(base);
            for p in (0..self.table.places).filter(|p| alike >> p & 1 == 0) {
                let time = self.table.time(task, self.table.place(p).class);
                if time >= NEVER {
                    continue;
                }
                if !self.steps.take(1) {
                    return false;
                }
                self.loads[base + p] += time;
                let fits = self.fits(k + 1, base);
                self.sites[task] = u32::try_from(base + p).unwrap_or(u32::MAX);
                let going = !fits || self.branch(k + 1, used.max(gpu + 1));
                self.loads[base + p] -= time;
                if !going {
                    return false;
                }
            }
        }
        true
    }

    /// Places of the GPU at `base` that look exactly like an earlier one.
    fn alike(&self, base: Site) -> Places {
        let mut alike: Places = 0;
        for p in 0..self.table.places {
            let under = self.table.place(p).parent.is_some_and(|q| alike >> q & 1 == 1);
            if under || self.twins[p].is_some_and(|q| self.same(base, p, q)) {
                alike |= 1 << p;
            }
        }
        alike
    }

    fn same(&self, base: Site, p: usize, q: usize) -> bool {
        let (a, b) = (self.table.place(p).children, self.table.place(q).children);
        self.loads[base + p] == self.loads[base + q]
            && members(a).zip(members(b)).all(|(a, b)| self.same(base, a, b))
    }

    fn complete(&mut self) -> bool {
        let bound = (0..self.table.gpus()).map(|g| {
            let base = self.table.base(g);
            lower(self.table, &self.loads[base..base + self.table.places], self.destroy, None)
        });
        let bound = bound.max().unwrap_or(0).max(self.floor);
        if bound >= self.search.best.makespan.min(self.limit) {
            return true;
        }
        let made = self.search.consider(&self.sites, self.steps);
        if made > bound {
            if self.limit < NEVER {
                return false;
            }
            if self.table.gpus() == 1 && self.untried.len() < MOST {
                self.untried.push((bound, self.sites.clone()));
            } else {
                self.open = self.open.min(bound);
            }
        }
        self.steps.0 > 0
    }

    /// Tries the orders of what [`Proof::complete`] left, the lowest bound first: the best makespan below the search's and
    /// its schedule. What the steps do not reach goes into `open`.
    fn orders(&mut self) -> Option<(Micros, Schedule)> {
        let mut untried = std::mem::take(&mut self.untried);
        untried.sort_unstable();
        let mut limit = self.search.best.makespan;
        let mut better = None;
        for (bound, sites) in untried {
            if bound >= limit {
                break;
            }
            let mut loads = vec![0; self.table.sites()];
            for (task, &site) in sites.iter().enumerate() {
                loads[site as Site] += self.table.time(task, self.table.class(site as Site));
            }
            match shortest(self.table, &loads, limit, self.steps) {
                Ok(None) => {}
                Ok(Some((makespan, sequence))) => {
                    limit = makespan;
                    better = Some((makespan, sites, loads, sequence));
                }
                Err(OutOfSteps) => {
                    self.open = self.open.min(bound);
                    break;
                }
            }
        }
        let (makespan, sites, loads, sequence) = better?;
        let mut lists = TaskLists::default();
        lists.fill(self.table, (0u32..).zip(sites));
        lists.sort(self.table);
        let mut timing = Timing::new(self.table);
        timing.follow(self.table, &loads, &sequence);
        Some((makespan, timing.schedule(self.table, &lists)))
    }

    /// Whether an assignment of all tasks better than the best known may still follow from the loads of the GPU at
    /// `base`, which has just changed, with the tasks from `k` on still to come.
    fn fits(&mut self, k: usize, base: Site) -> bool {
        let best = self.search.best.makespan.min(self.limit);
        let loads = &self.loads[base..base + self.table.places];
        if lower(self.table, loads, self.destroy, Some(self.create)) >= best {
            return false;
        }
        let room = (0..self.table.gpus()).map(|g| self.room(k, g, best - 1)).sum();
        self.areas[k] <= room && self.area(k, room)
    }

    /// Slices times time that the tasks from `k` on can still use on a GPU before `makespan`. Sets what is `left` there.
    fn room(&mut self, k: usize, gpu: usize, makespan: Micros) -> u64 {
        let table = self.table;
        let base = table.base(gpu);
        let mut chain = [0; MAX_NODES];
        let mut left = [Micros::MAX; MAX_NODES];
        for p in 0..table.places {
            let place = table.place(p);
            let above = place.parent.map_or(0, |q| chain[q]);
            let load = self.loads[base + p];
            let between = if above > 0 { self.destroy } else { 0 };
            chain[p] = if load > 0 { above + between + place.create + load } else { above };
        }
        let mut open: Places = 0;
        let mut room = 0;
        for p in (0..table.places).rev() {
            let place = table.place(p);
            left[p] = match place.children {
                0 => makespan.saturating_sub(chain[p]),
                children => members(children).map(|c| left[c]).min().unwrap_or(0),
            };
            let create = if self.loads[base + p] > 0 { 0 } else { place.create };
            let longest = left[p].saturating_sub(create);
            self.left[base + p] = longest;
            if self.shortest[k][place.class] <= longest {
                open |= place.leaves;
            }
        }
        members(open).for_each(|leaf| room += left[leaf]);
        room
    }

    /// Whether each of the tasks from `k` on still fits somewhere, and all of them into `room`.
    fn area(&self, k: usize, mut room: u64) -> bool {
        let table = self.table;
        for &task in &self.order[k..] {
            let mut least = u64::MAX;
            for gpu in 0..table.gpus() {
                let base = table.base(gpu);
                for (p, &left) in self.left[base..base + table.places].iter().enumerate() {
                    let place = table.place(p);
                    let time = table.time(task, place.class);
                    if time <= left {
                        least = least.min(place.width * time);
                    }
                }
            }
            if least > room {
                return false;
            }
            room -= least;
        }
        true
    }
}

/// Siblings with the same sizes all the way down: the later one's earlier twin.
fn twins(table: &SearchTable<'_>) -> [Option<usize>; MAX_NODES] {
    let mut twins = [None; MAX_NODES];
    for (p, twin) in twins.iter_mut().enumerate().take(table.places) {
        let place = table.place(p);
        let alike = |&q: &usize| table.place(q).parent == place.parent && same_shape(table, p, q);
        *twin = (0..p).find(alike).filter(|_| place.parent.is_some());
    }
    twins
}

fn same_shape(table: &SearchTable<'_>, p: usize, q: usize) -> bool {
    let (a, b) = (table.place(p), table.place(q));
    a.class == b.class
        && a.leaves.count_ones() == b.leaves.count_ones()
        && a.children.count_ones() == b.children.count_ones()
        && members(a.children).zip(members(b.children)).all(|(a, b)| same_shape(table, a, b))
}
