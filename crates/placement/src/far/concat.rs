//! Batches one after another (section 4 of the paper): what a schedule leaves behind is the state the next one starts
//! from, so that the next batch begins on every slice as soon as the one before it lets go.
//!
//! The reversed order and the moves and swaps of section 4.3 are the planners' own: they plan over any state. Differs
//! from the paper, which shifts the next schedule as a whole until the first slice stops it: here every place begins on
//! its own.

use super::problem::{Blocked, Busy, Held, Micros, Problem, Task};
use super::schedule::{OpKind, Schedule};

impl Problem {
    /// The problem of the next batch: these GPUs as `schedule` (a plan for this problem) leaves them, nothing of it to
    /// begin before `arrival`. Times stay those of this problem, so that the schedules can be laid side by side.
    #[must_use]
    pub fn then(&self, schedule: &Schedule, arrival: Micros, tasks: Vec<Task>) -> Problem {
        let mut next = Problem { tasks, ..self.clone() };
        let mut events: Vec<_> =
            schedule.ops.iter().map(|o| (o.begin, o.gpu, o.node, o.kind, o.end)).collect();
        events.sort_unstable_by_key(|e| (e.0, e.3));
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
        next
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

/// Several batches and their schedules as one, to be replayed from the first batch's state. `parts` are in order.
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
    all.ops.sort_by_key(|o| (o.begin, o.kind));
    Some((problem, all))
}
