//! Batches one after another (section 4 of the paper).
//!
//! The next schedule starts from the state that the last one leaves, so the next batch begins on every slice as soon as
//! that slice is free. The planners themselves do the reversing, moves and swaps of section 4.3, because they plan over
//! any state. Differs from the paper, which shifts the next schedule as a whole until one slice stops it: here every
//! place begins on its own.

use super::problem::{Blocked, Busy, GpuNow, Held, Micros, Problem, Task};
use super::schedule::{OpKind, Schedule};

impl Problem {
    /// The problem of the next batch: these GPUs as `schedule` (a plan for this problem) leaves them, nothing of it to
    /// begin before `arrival`. Times stay those of this problem, so that the schedules can be laid side by side.
    #[must_use]
    pub fn then(&self, schedule: &Schedule, arrival: Micros, tasks: Vec<Task>) -> Problem {
        let mut next = Problem { tasks, ..self.clone() };
        let mut events: Vec<_> =
            schedule.ops.iter().map(|o| (o.begin, o.gpu, o.node, o.kind, o.end)).collect();
        events.sort_unstable_by_key(|e| (e.0, e.4, e.3));
        for (begin, gpu, node, kind, end) in events {
            next.busy.push(Busy { lane: self.gpus[gpu].lane, begin, end });
            let now = &mut next.gpus[gpu];
            if kind == OpKind::Create {
                now.held.push(Held { node, until: Some(end) });
            } else {
                now.held.retain(|h| h.node != node);
                now.blocked.push(Blocked { mask: self.tree.nodes[node].mask, until: Some(end) });
            }
        }
        for run in &schedule.runs {
            // A run on an instance that is gone again is covered by its destruction.
            for held in next.gpus[run.gpu].held.iter_mut().filter(|h| h.node == run.node) {
                held.until = held.until.map(|until| until.max(run.end));
            }
        }
        next.not_before(arrival);
        next.forget();
        next
    }

    /// Drops what no longer matters, so that a chain of batches does not carry its past along: all but the last block of
    /// each unit, and reconfigurations that end before any unit of their lane comes free.
    fn forget(&mut self) {
        for gpu in &mut self.gpus {
            let blocked = std::mem::take(&mut gpu.blocked);
            // Unknown ends last longest.
            let later = |b: &Blocked| b.until.unwrap_or(Micros::MAX);
            let last =
                |unit: usize| blocked.iter().filter(|b| b.mask >> unit & 1 == 1).max_by_key(|b| later(b));
            for (unit, last) in (0..16).filter_map(|unit| Some((unit, last(unit)?))) {
                match gpu.blocked.iter_mut().find(|b| b.until == last.until) {
                    Some(same) => same.mask |= 1 << unit,
                    None => gpu.blocked.push(Blocked { mask: 1 << unit, until: last.until }),
                }
            }
        }
        // Every place has a leaf in it, and the first operation there waits for what the leaf has now.
        let nodes = &self.tree.nodes;
        let leaves: Vec<u16> = nodes.iter().filter(|n| n.children.is_empty()).map(|n| n.mask).collect();
        let free = |gpu: &GpuNow, leaf: u16| {
            let held = gpu.held.iter().find(|h| nodes[h.node].mask & leaf != 0).map(|h| h.until);
            let blocked = gpu.blocked.iter().filter(|b| b.mask & leaf != 0).map(|b| b.until);
            let unknown = |until: Option<Micros>| until.unwrap_or(Micros::MAX);
            held.map_or_else(|| blocked.map(unknown).max().unwrap_or(0), unknown)
        };
        let first = |lane: usize| {
            let gpus = self.gpus.iter().filter(|g| g.lane == lane);
            gpus.flat_map(|g| leaves.iter().map(move |&leaf| free(g, leaf))).min().unwrap_or(0)
        };
        self.busy.retain(|b| b.end > first(b.lane));
    }

    /// Lets nothing begin before `instant`.
    pub fn not_before(&mut self, instant: Micros) {
        if instant == 0 {
            return;
        }
        let all = self.tree.nodes.iter().fold(0, |all, n| all | n.mask);
        for gpu in &mut self.gpus {
            gpu.held.iter_mut().for_each(|h| h.until = h.until.map(|until| until.max(instant)));
            gpu.blocked.retain(|b| b.until.is_none_or(|until| until > instant));
            gpu.blocked.push(Blocked { mask: all, until: Some(instant) });
        }
        self.busy.retain(|b| b.end > instant);
        let mut lanes: Vec<usize> = self.gpus.iter().map(|g| g.lane).collect();
        lanes.sort_unstable();
        lanes.dedup();
        self.busy.extend(lanes.into_iter().map(|lane| Busy { lane, begin: 0, end: instant }));
    }
}

/// Joins several batches and their schedules, in order, into one that starts from the first batch's state. `None` if
/// `parts` is empty.
#[must_use]
pub fn joined(parts: &[(&Problem, &Schedule)]) -> Option<(Problem, Schedule)> {
    let mut problem = (*parts.first()?.0).clone();
    problem.tasks.clear();
    let mut all = Schedule::default();
    for (part, schedule) in parts {
        let first = problem.tasks.len();
        problem.tasks.extend(part.tasks.iter().cloned());
        all.runs.extend(schedule.runs.iter().map(|r| super::schedule::Run { task: first + r.task, ..*r }));
        all.ops.extend(&schedule.ops);
    }
    all.ops.sort_by_key(|o| (o.begin, o.end, o.kind));
    Some((problem, all))
}
