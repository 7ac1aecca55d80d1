//! From lists of tasks per place to times: in which order instances are created and destroyed.
//!
//! Within a GPU the order is [`VisitOrder::Down`] (a place before the places below it, as FAR does) or [`VisitOrder::Up`] (after
//! them: FAR's reversed schedule). What is left open is the order of reconfigurations, one at a time per lane. Of those
//! that can begin, [`Rule::Tail`] takes the one with the longest chain of work behind it, [`Rule::Fifo`] the one that
//! became possible first, as Algorithm 1 does.

use super::problem::{Busy, Micros};
use super::schedule::{Op, OpKind, Run, Schedule};
use super::table::{Places, SearchTable, Site, members};
use super::task_lists::TaskLists;

/// The order in which the places of one GPU are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VisitOrder {
    /// A place before the places below it.
    Down,
    /// A place after the places below it.
    Up,
}

/// Which of several possible reconfigurations comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The one that became possible first.
    Fifo,
    /// The one with the longest chain of work behind it.
    Tail,
}

/// Scratch and result of [`Timing::run`].
pub(super) struct Timing {
    ops: Vec<(OpKind, Site, Micros, Micros)>,
    sites: Vec<SiteTiming>,
    gpus: Vec<GpuTiming>,
    pub(super) makespan: Micros,
}

/// Times of one site.
#[derive(Clone, Copy, Default)]
struct SiteTiming {
    load: Micros,
    /// When the first task begins; only meaningful where a task is.
    begin: Micros,
    /// When the instance there has no more tasks; only meaningful where one is alive.
    free: Micros,
    /// The end of the last destruction that overlapped the site.
    cleared: Micros,
    /// When the last instance that overlapped the site had no more tasks.
    since: Micros,
    /// The chain of work from the beginning of the site's creation on.
    tail: Micros,
}

/// Progress on one GPU.
#[derive(Clone, Copy, Default)]
struct GpuTiming {
    /// Places still to be visited.
    pending: Places,
    /// Places where an instance is.
    alive: Places,
    /// Nothing was there at the beginning: every visit begins with a creation, so tails are bounds.
    empty: bool,
}

/// A next step: an operation, or (`None`) the use of an instance that is there already.
#[derive(Clone, Copy)]
struct NextStep {
    kind: Option<OpKind>,
    site: Site,
    release: Micros,
}

impl Timing {
    pub(super) fn new(table: &SearchTable<'_>) -> Self {
        Self {
            ops: Vec::with_capacity(2 * table.places * table.gpus()),
            sites: vec![SiteTiming::default(); table.sites()],
            gpus: vec![GpuTiming::default(); table.gpus()],
            makespan: 0,
        }
    }

    /// Times the places with a positive load (µs of tasks), each visited once, GPU `g` in order `orders[g]`.
    pub(super) fn run(
        &mut self,
        table: &SearchTable<'_>,
        loads: &[Micros],
        orders: &[VisitOrder],
        rule: Rule,
    ) -> Micros {
        self.run_below(table, loads, orders, rule, Micros::MAX).unwrap_or(Micros::MAX)
    }

    /// The same, given up with `None` as soon as it is clear that the makespan is not below `limit`.
    pub(super) fn run_below(
        &mut self,
        table: &SearchTable<'_>,
        loads: &[Micros],
        orders: &[VisitOrder],
        rule: Rule,
        limit: Micros,
    ) -> Option<Micros> {
        self.ops.clear();
        for (at, &load) in self.sites.iter_mut().zip(loads) {
            *at = SiteTiming { load, ..SiteTiming::default() };
        }
        self.makespan = 0;
        for (gpu, now) in table.problem.gpus.iter().enumerate() {
            let base = table.base(gpu);
            let sites = &mut self.sites[base..base + table.places];
            let mut pending: Places = 0;
            for (p, at) in sites.iter().enumerate() {
                pending |= Places::from(at.load > 0) << p;
            }
            let mut alive: Places = 0;
            // An instance of unknown end is in nobody's way: no place that overlaps it is used.
            for (node, until) in now.held.iter().filter_map(|h| Some((h.node, h.until?))) {
                alive |= 1 << node;
                sites[node].free = until;
            }
            for (mask, until) in now.blocked.iter().filter_map(|b| Some((b.mask, b.until?))) {
                let nodes = table.problem.tree.nodes.iter();
                for (at, _) in sites.iter_mut().zip(nodes).filter(|(_, n)| n.mask & mask != 0) {
                    at.cleared = at.cleared.max(until);
                }
            }
            self.gpus[gpu] = GpuTiming { pending, alive, empty: alive == 0 };
            // Nobody asks for tails that neither rank anything nor can reach the limit.
            if rule == Rule::Tail || limit < Micros::MAX {
                let longest = self.set_tails(table, gpu, orders[gpu]);
                if alive == 0 && longest >= limit {
                    return None;
                }
            }
        }
        for &lane in &table.lanes {
            if !self.run_lane(table, orders, rule, lane, limit) {
                return None;
            }
        }
        Some(self.makespan)
    }

    /// Times the places in a given order of operations, on one GPU that is empty; each operation as early as possible.
    pub(super) fn follow(&mut self, table: &SearchTable<'_>, loads: &[Micros], sequence: &[(OpKind, Site)]) {
        self.ops.clear();
        self.makespan = 0;
        self.gpus.fill(GpuTiming::default());
        for (at, &load) in self.sites.iter_mut().zip(loads) {
            *at = SiteTiming { load, ..SiteTiming::default() };
        }
        let mut now = 0;
        for &(kind, site) in sequence {
            let place = table.at(site);
            let (begin, length) = match kind {
                OpKind::Create => (now, place.create),
                OpKind::Destroy => (now.max(self.sites[site].free), place.destroy),
            };
            now = begin + length;
            self.ops.push((kind, site, begin, now));
            if kind == OpKind::Create {
                self.visit(table, site, now);
            }
        }
    }

    /// Returns the longest tail.
    fn set_tails(&mut self, table: &SearchTable<'_>, gpu: usize, order: VisitOrder) -> Micros {
        let base = table.base(gpu);
        let sites = &mut self.sites[base..base + table.places];
        let mut longest = 0;
        for k in 0..table.places {
            let p = if order == VisitOrder::Down { table.places - 1 - k } else { k };
            let place = table.place(p);
            let behind = match order {
                VisitOrder::Down => members(place.children).map(|c| sites[c].tail).max().unwrap_or(0),
                VisitOrder::Up => place.parent.map_or(0, |q| sites[q].tail),
            };
            let between = if behind > 0 { place.destroy } else { 0 };
            let load = sites[p].load;
            let here = if load > 0 { place.create + load + between } else { 0 };
            sites[p].tail = here + behind;
            longest = longest.max(sites[p].tail);
        }
        longest
    }

    /// False as soon as the makespan cannot be below `limit`.
    fn run_lane(
        &mut self,
        table: &SearchTable<'_>,
        orders: &[VisitOrder],
        rule: Rule,
        lane: usize,
        limit: Micros,
    ) -> bool {
        let mut now = 0;
        while let Some(NextStep { kind, site, release }) = self.choose(table, orders, rule, lane, now) {
            let place = table.node(site);
            let gpu = table.gpu(site);
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
                if self.makespan >= limit || (self.gpus[gpu].empty && begin + self.sites[site].tail >= limit)
                {
                    return false;
                }
                continue;
            }
            self.gpus[gpu].alive &= !(1 << place);
            let free = self.sites[site].free;
            for s in members(table.place(place).overlap).map(|p| site - place + p) {
                let at = &mut self.sites[s];
                at.cleared = at.cleared.max(now);
                at.since = at.since.max(free);
            }
        }
        self.makespan < limit
    }

    /// The instance at `site` exists from `begin` on: its tasks run.
    fn visit(&mut self, table: &SearchTable<'_>, site: Site, begin: Micros) {
        let bit = 1 << table.node(site);
        let at = &mut self.sites[site];
        at.begin = begin;
        at.free = begin + at.load;
        self.makespan = self.makespan.max(at.free);
        let gpu = &mut self.gpus[table.gpu(site)];
        gpu.alive |= bit;
        gpu.pending &= !bit;
    }

    fn choose(
        &self,
        table: &SearchTable<'_>,
        orders: &[VisitOrder],
        rule: Rule,
        lane: usize,
        now: Micros,
    ) -> Option<NextStep> {
        let mut best: Option<((Micros, Micros), NextStep)> = None;
        for gpu in (0..table.gpus()).filter(|&g| table.problem.gpus[g].lane == lane) {
            let base = table.base(gpu);
            for p in members(ready(table, self.gpus[gpu].pending, orders[gpu])) {
                let overlap = table.place(p).overlap;
                let in_way = self.gpus[gpu].alive & overlap;
                if in_way >> p & 1 == 1 {
                    return Some(NextStep { kind: None, site: base + p, release: self.sites[base + p].free });
                }
                let mut consider = |kind, site, release: Micros, since| {
                    let rank =
                        if rule == Rule::Tail { Micros::MAX - self.sites[base + p].tail } else { since };
                    let key = (now.max(release), rank);
                    if best.is_none_or(|(least, _)| key < least) {
                        best = Some((key, NextStep { kind: Some(kind), site, release }));
                    }
                };
                if in_way == 0 {
                    consider(
                        OpKind::Create,
                        base + p,
                        self.sites[base + p].cleared,
                        self.sites[base + p].since,
                    );
                }
                for other in members(in_way).map(|o| base + o) {
                    consider(OpKind::Destroy, other, self.sites[other].free, self.sites[other].free);
                }
            }
        }
        best.map(|(_, choice)| choice)
    }

    /// Per site that is a leaf: when the last task on it or on a place above it ends.
    pub(super) fn leaf_ends(&self, table: &SearchTable<'_>, ends: &mut Vec<Micros>) {
        ends.clear();
        for (site, at) in self.sites.iter().enumerate() {
            let here = if at.load > 0 { at.begin + at.load } else { 0 };
            ends.push(here.max(table.parent(site).map_or(0, |p| ends[p])));
        }
    }

    /// The schedule that was timed last, with the tasks of every place in the order of `lists`.
    pub(super) fn schedule(&self, table: &SearchTable<'_>, lists: &TaskLists) -> Schedule {
        let nowhere = Run { task: 0, gpu: 0, node: 0, begin: 0, end: 0 };
        let mut schedule =
            Schedule { runs: vec![nowhere; table.tasks()], ops: Vec::with_capacity(self.ops.len()) };
        for (site, tasks) in lists.iter() {
            let mut begin = self.sites[site].begin;
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
        schedule.ops.sort_by_key(|o| (o.begin, o.end, o.kind));
        schedule
    }
}

/// The places of `pending` that wait for no other one of them: none above them (`Down`) or below them (`Up`).
fn ready(table: &SearchTable<'_>, mut pending: Places, order: VisitOrder) -> Places {
    let mut ready = 0;
    while pending != 0 {
        // Places above have lower numbers, so the first (last) one waits for none, and all that overlap wait for it.
        let p = match order {
            VisitOrder::Down => pending.trailing_zeros(),
            VisitOrder::Up => Places::BITS - 1 - pending.leading_zeros(),
        };
        ready |= 1 << p;
        pending &= !table.place(p as usize).overlap;
    }
    ready
}

/// The beginning of the first stretch of `length` from `ready` on in which the lane has nothing planned.
fn stretch(busy: &[Busy], lane: usize, ready: Micros, length: Micros) -> Micros {
    let mut begin = ready;
    while let Some(b) = busy.iter().find(|b| b.lane == lane && b.begin < begin + length && begin < b.end) {
        begin = b.end;
    }
    begin
}
