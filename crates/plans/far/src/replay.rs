//! Checks a schedule: computes every begin and end again and tests every constraint. Shares no code with the planners,
//! only the types of problem and schedule.
//!
//! Events happen twice in the order of their claimed begins: at their claimed times, which must obey the rules, and as early
//! as that order allows. The rules, after section 2.2 of the paper:
//! 1. Two tasks with units in common never run at the same time.
//! 2. The instances that exist at any time are a legal layout: each at one of the model's placements, none overlapping.
//! 3. There is time for reconfiguration: a task runs on an instance that has been created before it, an instance is
//!    created after all overlapping ones have been destroyed, destroyed after its last task, and operations of one lane
//!    follow one another.
//!
//! Differs from the paper's inequality in constraint 3, which counts an instance as destroyed whenever it is idle: an
//! idle instance may stay here, as it does in the authors' own Algorithm 1.

use super::problem::{GpuNow, Micros, Problem};
use super::schedule::{Op, OpKind, Run, Schedule};

/// The first rule that a schedule breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A task does not run exactly once.
    #[error("job {task} is run {times} times")]
    NotOnce {
        /// Index of the task.
        task: usize,
        /// How often it runs.
        times: usize,
    },
    /// A run or an operation is at a GPU or place that does not exist.
    #[error("GPU {gpu}, place {node}: no such place")]
    NoPlace {
        /// Index of the GPU.
        gpu: usize,
        /// Index of the place.
        node: usize,
    },
    /// A run or an operation does not take as long as the problem says.
    #[error("{what} on GPU {gpu}, place {node}: takes {claimed} µs, must take {real} µs")]
    Duration {
        /// `task N`, `create` or `destroy`.
        what: String,
        /// Index of the GPU.
        gpu: usize,
        /// Index of the place.
        node: usize,
        /// Length in the schedule, µs.
        claimed: Micros,
        /// Length in the problem, µs; 0 if the task cannot run at that size.
        real: Micros,
    },
    /// A task or a destruction has no instance.
    #[error("{what} at {begin} µs on GPU {gpu}, place {node}: no such instance then")]
    NoInstance {
        /// `task N` or `destroy`.
        what: String,
        /// Index of the GPU.
        gpu: usize,
        /// Index of the place.
        node: usize,
        /// Claimed begin, µs.
        begin: Micros,
    },
    /// An instance is created while an overlapping one exists.
    #[error("create at {begin} µs on GPU {gpu}, place {node}: overlaps the instance at place {other}")]
    Overlap {
        /// Index of the GPU.
        gpu: usize,
        /// Index of the place.
        node: usize,
        /// The place of the instance in the way.
        other: usize,
        /// Claimed begin, µs.
        begin: Micros,
    },
    /// An event begins before something that it must wait for has ended.
    #[error("{what} on GPU {gpu}, place {node}: claimed at {claimed} µs, possible from {possible} µs")]
    TooEarly {
        /// `task N`, `create` or `destroy`.
        what: String,
        /// Index of the GPU.
        gpu: usize,
        /// Index of the place.
        node: usize,
        /// Claimed begin, µs.
        claimed: Micros,
        /// Earliest legal begin, µs.
        possible: Micros,
    },
}

/// A schedule that obeys all rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The same events, each as early as their order allows. A schedule without needless waiting is unchanged.
    pub earliest: Schedule,
    /// When the last task ends in the schedule as claimed, µs.
    pub makespan: Micros,
}

/// Replays a schedule from the problem's state.
///
/// # Errors
///
/// The first [`Violation`] in order of claimed begin.
pub fn replay(problem: &Problem, schedule: &Schedule) -> Result<Replay, Violation> {
    each_task_once(problem, schedule)?;
    let mut claimed = World::new(problem);
    let mut early = World::new(problem);
    let mut earliest = Schedule::default();
    for event in events(schedule) {
        event.check_length(problem)?;
        let possible = claimed.possible(problem, &event, event.begin)?;
        if event.begin < possible {
            let (gpu, node, claimed) = (event.gpu, event.node, event.begin);
            return Err(Violation::TooEarly { what: event.what(), gpu, node, claimed, possible });
        }
        claimed.happen(problem, &event, event.begin);
        let begin = early.possible(problem, &event, 0)?;
        early.happen(problem, &event, begin);
        event.push(&mut earliest, begin);
    }
    earliest.runs.sort_by_key(|r| r.task);
    earliest.ops.sort_by_key(|o| (o.begin, o.end, o.kind));
    Ok(Replay { earliest, makespan: schedule.runs.iter().map(|r| r.end).max().unwrap_or(0) })
}

fn each_task_once(problem: &Problem, schedule: &Schedule) -> Result<(), Violation> {
    let mut times = vec![0; problem.tasks.len()];
    for run in &schedule.runs {
        *times.get_mut(run.task).ok_or(Violation::NotOnce { task: run.task, times: 1 })? += 1;
    }
    match times.iter().position(|&t| t != 1) {
        Some(task) => Err(Violation::NotOnce { task, times: times[task] }),
        None => Ok(()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Destroy,
    Create,
    Run(usize),
}

#[derive(Clone, Copy)]
struct ReplayEvent {
    what: What,
    gpu: usize,
    node: usize,
    begin: Micros,
    end: Micros,
}

/// All events by claimed begin; at the same instant first what takes no time, else destructions, then creations, then
/// tasks.
fn events(schedule: &Schedule) -> Vec<ReplayEvent> {
    let run = |r: &Run| ReplayEvent {
        what: What::Run(r.task),
        gpu: r.gpu,
        node: r.node,
        begin: r.begin,
        end: r.end,
    };
    let op = |o: &Op| {
        let what = if o.kind == OpKind::Create { What::Create } else { What::Destroy };
        ReplayEvent { what, gpu: o.gpu, node: o.node, begin: o.begin, end: o.end }
    };
    let mut events: Vec<ReplayEvent> =
        schedule.runs.iter().map(run).chain(schedule.ops.iter().map(op)).collect();
    events.sort_by_key(|e| (e.begin, e.end, e.what));
    events
}

impl ReplayEvent {
    fn what(&self) -> String {
        match self.what {
            What::Run(task) => format!("job {task}"),
            What::Create => "create".to_owned(),
            What::Destroy => "destroy".to_owned(),
        }
    }

    fn length(&self) -> Micros {
        self.end.saturating_sub(self.begin)
    }

    fn check_length(&self, problem: &Problem) -> Result<(), Violation> {
        let (gpu, node) = (self.gpu, self.node);
        let place = problem.tree.nodes.get(node).filter(|_| gpu < problem.gpus.len());
        let class = place.ok_or(Violation::NoPlace { gpu, node })?.class;
        let real = match self.what {
            What::Run(task) => problem.tasks[task].times[class].unwrap_or(0),
            What::Create => problem.costs.create[class],
            What::Destroy => problem.costs.destroy[class],
        };
        let impossible = real == 0 && matches!(self.what, What::Run(_));
        if self.end < self.begin || self.length() != real || impossible {
            return Err(Violation::Duration { what: self.what(), gpu, node, claimed: self.length(), real });
        }
        Ok(())
    }

    fn push(&self, schedule: &mut Schedule, begin: Micros) {
        let (gpu, node, end) = (self.gpu, self.node, begin + self.length());
        match self.what {
            What::Run(task) => schedule.runs.push(Run { task, gpu, node, begin, end }),
            What::Create => schedule.ops.push(Op { kind: OpKind::Create, gpu, node, begin, end }),
            What::Destroy => schedule.ops.push(Op { kind: OpKind::Destroy, gpu, node, begin, end }),
        }
    }
}

/// The GPUs after some events.
struct World {
    /// Per GPU: instances that exist and when each is free; `None` if never.
    alive: Vec<Vec<(usize, Option<Micros>)>>,
    /// Per GPU and unit: end of the last destruction there.
    cleared: Vec<[Micros; 16]>,
    /// Reconfigurations that have happened or are given, as (lane, begin, end).
    operations: Vec<(usize, Micros, Micros)>,
    /// How many of `operations` were given with the problem.
    given: usize,
}

fn blocked_until(gpu: &GpuNow, unit: usize) -> Micros {
    let blocked = gpu.blocked.iter().filter(|b| b.mask >> unit & 1 == 1);
    blocked.map(|b| b.until.unwrap_or(Micros::MAX)).max().unwrap_or(0)
}

impl World {
    fn new(problem: &Problem) -> Self {
        let operations: Vec<_> = problem.busy.iter().map(|b| (b.lane, b.begin, b.end)).collect();
        Self {
            alive: problem.gpus.iter().map(|g| g.held.iter().map(|h| (h.node, h.until)).collect()).collect(),
            cleared: problem
                .gpus
                .iter()
                .map(|g| std::array::from_fn(|unit| blocked_until(g, unit)))
                .collect(),
            given: operations.len(),
            operations,
        }
    }

    /// The earliest instant from `wish` on at which the event can begin here.
    fn possible(&self, problem: &Problem, event: &ReplayEvent, wish: Micros) -> Result<Micros, Violation> {
        let (gpu, node, begin) = (event.gpu, event.node, event.begin);
        let mask = problem.tree.nodes[node].mask;
        let ready = if event.what == What::Create {
            let in_way = |(n, _): &&(usize, _)| problem.tree.nodes[*n].mask & mask != 0;
            if let Some(&(other, _)) = self.alive[gpu].iter().find(in_way) {
                return Err(Violation::Overlap { gpu, node, other, begin });
            }
            (0..16).filter(|u| mask >> u & 1 == 1).map(|u| self.cleared[gpu][u]).max().unwrap_or(0)
        } else {
            let found = self.alive[gpu].iter().find(|(n, _)| *n == node).and_then(|(_, free)| *free);
            found.ok_or_else(|| Violation::NoInstance { what: event.what(), gpu, node, begin })?
        };
        let ready = ready.max(wish);
        if matches!(event.what, What::Run(_)) {
            return Ok(ready);
        }
        Ok(self.stretch(problem.gpus[gpu].lane, ready, event.length()))
    }

    /// The first stretch of `length` from `ready` on in which the lane does nothing: after everything that has
    /// happened here, and clear of what was given.
    fn stretch(&self, lane: usize, ready: Micros, length: Micros) -> Micros {
        let (given, happened) = self.operations.split_at(self.given);
        let mine = |op: &&(usize, Micros, Micros)| op.0 == lane;
        let mut begin = happened.iter().filter(mine).map(|op| op.2).fold(ready, Micros::max);
        while let Some(op) =
            given.iter().filter(mine).find(|op| op.1 < begin.saturating_add(length) && begin < op.2)
        {
            begin = op.2;
        }
        begin
    }

    fn happen(&mut self, problem: &Problem, event: &ReplayEvent, begin: Micros) {
        let end = begin + event.length();
        let alive = &mut self.alive[event.gpu];
        match event.what {
            What::Run(_) => {
                alive.iter_mut().filter(|(n, _)| *n == event.node).for_each(|(_, free)| *free = Some(end))
            }
            What::Create => alive.push((event.node, Some(end))),
            What::Destroy => {
                alive.retain(|(n, _)| *n != event.node);
                let mask = problem.tree.nodes[event.node].mask;
                (0..16).filter(|u| mask >> u & 1 == 1).for_each(|u| self.cleared[event.gpu][u] = end);
            }
        }
        if !matches!(event.what, What::Run(_)) {
            self.operations.push((problem.gpus[event.gpu].lane, begin, end));
        }
    }
}
