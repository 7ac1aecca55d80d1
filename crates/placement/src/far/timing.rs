//! From lists of tasks per place to times: in which order instances are made and unmade.
//!
//! Within a GPU the order is [`Order::Down`] (a place before the places below it, as FAR does) or [`Order::Up`] (after
//! them: FAR's reversed schedule). What is left open is the order of reconfigurations, one at a time per lane. Of those
//! that can begin, [`Rule::Tail`] takes the one with the longest chain of work behind it, [`Rule::Fifo`] the one that
//! became possible first, as Algorithm 1 does.

use super::list::Lists;
use super::problem::{Busy, Micros};
use super::schedule::{Op, OpKind, Run, Schedule};
use super::table::{Places, Site, Table, members};

/// Order of places within one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Down,
    Up,
}

/// Which of several possible reconfigurations comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Fifo,
    Tail,
}

/// Scratch and result of [`Timing::run`]. Vectors are by site unless they say otherwise.
pub(super) struct Timing {
    ops: Vec<(OpKind, Site, Micros, Micros)>,
    loads: Vec<Micros>,
    /// When the first task begins; only meaningful where a task is.
    begins: Vec<Micros>,
    /// When the instance there has no more tasks; only meaningful where one is alive.
    free: Vec<Micros>,
    /// The end of the last destruction that overlapped the site.
    cleared: Vec<Micros>,
    /// When the last instance that overlapped the site had no more tasks.
    since: Vec<Micros>,
    /// The chain of work from the beginning of the site's creation on.
    tails: Vec<Micros>,
    /// Per GPU: places still to be visited.
    pending: Vec<Places>,
    /// Per GPU: places where an instance is.
    alive: Vec<Places>,
    lanes: Vec<usize>,
    pub(super) makespan: Micros,
}

/// A next step: an operation, or (`None`) the use of an instance that is there already.
#[derive(Clone, Copy)]
struct Choice {
    kind: Option<OpKind>,
    site: Site,
    release: Micros,
}

impl Timing {
    pub(super) fn new(table: &Table<'_>) -> Self {
        let n = table.sites();
        let mut lanes: Vec<usize> = table.problem.gpus.iter().map(|g| g.lane).collect();
        lanes.sort_unstable();
        lanes.dedup();
        Self {
            ops: Vec::with_capacity(2 * n),
            loads: vec![0; n],
            begins: vec![0; n],
            free: vec![0; n],
            cleared: vec![0; n],
            since: vec![0; n],
            tails: vec![0; n],
            pending: vec![0; table.gpus()],
            alive: vec![0; table.gpus()],
            lanes,
            makespan: 0,
        }
    }

    /// Times the places with a positive load (µs of tasks), each visited once, GPU `g` in order `orders[g]`.
    pub(super) fn run(
        &mut self,
        table: &Table<'_>,
        loads: &[Micros],
        orders: &[Order],
        rule: Rule,
    ) -> Micros {
        self.ops.clear();
        self.cleared.fill(0);
        self.since.fill(0);
        self.loads.copy_from_slice(loads);
        self.makespan = 0;
        for (gpu, now) in table.problem.gpus.iter().enumerate() {
            let base = table.base(gpu);
            self.pending[gpu] = (0..table.places).filter(|p| loads[base + p] > 0).map(|p| 1 << p).sum();
            self.alive[gpu] = 0;
            // An instance of unknown end is in nobody's way: no place that overlaps it is used.
            for (node, until) in now.held.iter().filter_map(|h| Some((h.node, h.until?))) {
                self.alive[gpu] |= 1 << node;
                self.free[base + node] = until;
            }
            for (mask, until) in now.blocked.iter().filter_map(|b| Some((b.mask, b.until?))) {
                let nodes = table.problem.tree.nodes.iter();
                for (cleared, _) in
                    self.cleared[base..].iter_mut().zip(nodes).filter(|(_, n)| n.mask & mask != 0)
                {
                    *cleared = (*cleared).max(until);
                }
            }
            self.set_tails(table, gpu, orders[gpu]);
        }
        for lane in 0..self.lanes.len() {
            self.run_lane(table, orders, rule, self.lanes[lane]);
        }
        self.makespan
    }

    fn set_tails(&mut self, table: &Table<'_>, gpu: usize, order: Order) {
        let base = table.base(gpu);
        for k in 0..table.places {
            let p = if order == Order::Down { table.places - 1 - k } else { k };
            let behind = match order {
                Order::Down => {
                    members(table.place(p).children).map(|c| self.tails[base + c]).max().unwrap_or(0)
                }
                Order::Up => table.place(p).parent.map_or(0, |q| self.tails[base + q]),
            };
            let between = if behind > 0 { table.place(p).destroy } else { 0 };
            let load = self.loads[base + p];
            let here = if load > 0 { table.place(p).create + load + between } else { 0 };
            self.tails[base + p] = here + behind;
        }
    }

    fn run_lane(&mut self, table: &Table<'_>, orders: &[Order], rule: Rule, lane: usize) {
        let mut now = 0;
        while let Some(Choice { kind, site, release }) = self.choose(table, orders, rule, lane, now) {
            let place = table.node(site);
            let Some(kind) = kind else {
                self.visit(table, site, release);
                continue;
            };
            let length =
                if kind == OpKind::Create { table.place(place).create } else { table.place(place).destroy };
            let begin = stretch(&table.problem.busy, lane, now.max(release), length);
            now = begin + length;
            self.ops.push((kind, site, begin, now));
            if kind == OpKind::Create {
                self.visit(table, site, now);
                continue;
            }
            self.alive[table.gpu(site)] &= !(1 << place);
            for s in members(table.place(place).overlap).map(|p| site - place + p) {
                self.cleared[s] = self.cleared[s].max(now);
                self.since[s] = self.since[s].max(self.free[site]);
            }
        }
    }

    /// The instance at `site` exists from `begin` on: its tasks run.
    fn visit(&mut self, table: &Table<'_>, site: Site, begin: Micros) {
        let bit = 1 << table.node(site);
        self.begins[site] = begin;
        self.free[site] = begin + self.loads[site];
        self.makespan = self.makespan.max(self.free[site]);
        self.alive[table.gpu(site)] |= bit;
        self.pending[table.gpu(site)] &= !bit;
    }

    fn choose(
        &self,
        table: &Table<'_>,
        orders: &[Order],
        rule: Rule,
        lane: usize,
        now: Micros,
    ) -> Option<Choice> {
        let mut best: Option<((Micros, Micros), Choice)> = None;
        for gpu in (0..table.gpus()).filter(|&g| table.problem.gpus[g].lane == lane) {
            let base = table.base(gpu);
            for p in members(self.pending[gpu]) {
                let overlap = table.place(p).overlap;
                let earlier: Places = if orders[gpu] == Order::Down { (1 << p) - 1 } else { !1 << p };
                if self.pending[gpu] & overlap & earlier != 0 {
                    continue;
                }
                let in_way = self.alive[gpu] & overlap;
                if in_way >> p & 1 == 1 {
                    return Some(Choice { kind: None, site: base + p, release: self.free[base + p] });
                }
                let mut consider = |kind, site, release: Micros, since| {
                    let rank = if rule == Rule::Tail { Micros::MAX - self.tails[base + p] } else { since };
                    let key = (now.max(release), rank);
                    if best.is_none_or(|(least, _)| key < least) {
                        best = Some((key, Choice { kind: Some(kind), site, release }));
                    }
                };
                if in_way == 0 {
                    consider(OpKind::Create, base + p, self.cleared[base + p], self.since[base + p]);
                }
                for other in members(in_way).map(|o| base + o) {
                    consider(OpKind::Destroy, other, self.free[other], self.free[other]);
                }
            }
        }
        best.map(|(_, choice)| choice)
    }

    /// Per site that is a leaf: when the last task on it or on a place above it ends.
    pub(super) fn leaf_ends(&self, table: &Table<'_>, ends: &mut Vec<Micros>) {
        ends.clear();
        for site in 0..self.loads.len() {
            let here = if self.loads[site] > 0 { self.begins[site] + self.loads[site] } else { 0 };
            ends.push(here.max(table.parent(site).map_or(0, |p| ends[p])));
        }
    }

    /// The schedule that was timed last, with the tasks of every place in the order of `lists`.
    pub(super) fn schedule(&self, table: &Table<'_>, lists: &Lists) -> Schedule {
        let nowhere = Run { task: 0, gpu: 0, node: 0, begin: 0, end: 0 };
        let mut schedule =
            Schedule { runs: vec![nowhere; table.tasks()], ops: Vec::with_capacity(self.ops.len()) };
        for (site, tasks) in lists.tasks.iter().enumerate() {
            let mut begin = self.begins[site];
            for task in tasks.iter().map(|&t| t as usize) {
                let end = begin + table.time(task, table.class(site));
                schedule.runs[task] = Run { task, gpu: table.gpu(site), node: table.node(site), begin, end };
                begin = end;
            }
        }
        let op = |&(kind, site, begin, end): &(OpKind, Site, Micros, Micros)| Op {
            kind,
            gpu: table.gpu(site),
            node: table.node(site),
            begin,
            end,
        };
        schedule.ops.extend(self.ops.iter().map(op));
        schedule.ops.sort_by_key(|o| (o.begin, o.kind));
        schedule
    }
}

/// The beginning of the first stretch of `length` from `ready` on in which the lane has nothing planned.
fn stretch(busy: &[Busy], lane: usize, ready: Micros, length: Micros) -> Micros {
    let mut begin = ready;
    while let Some(b) = busy.iter().find(|b| b.lane == lane && b.begin < begin + length && begin < b.end) {
        begin = b.end;
    }
    begin
}
