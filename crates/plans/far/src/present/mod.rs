//! Planning over GPUs as they are now: for a service that plans pending jobs, and for a batch that is submitted while other
//! jobs run.
//!
//! [`Present`] names GPUs of one model on any nodes, the instances on each, and how long jobs outside the plan use them.
//! [`Present::plan`] answers in the same terms: node, GPU, profile, start, begin and end. A plan never moves a busy
//! instance, destroys it only after its end, and leaves one of unknown end alone. It uses an idle instance for tasks of its
//! size, or destroys it if something else is better there.
//!
//! - **Lanes.** Reconfigurations on one node follow one another; nodes do not wait for each other.
//! - **Estimates.** `until` is the caller's estimate. A job that is past it and still runs should be given as `None` or
//!   with a new estimate, never as idle. Planning again when a job ends replaces a plan whose estimates were wrong.
//! - **Other profiles.** Plans use one profile per compute size (`1g.5gb`, not `1g.10gb` or `1g.5gb+me`). An instance of
//!   another profile is not used: if a task is planned over its units it is destroyed first, as soon as it is free.
//! - **Several models.** A plan is for one model, because times and sizes depend on it. [`Present::by_model`] makes one
//!   `Present` per model; the caller decides which jobs go to which.
//!
//! `tests/far_present.rs` begins with an example.

mod state;
mod translate;

pub use state::{PresentGpu, PresentInstance};

use super::policy::{Answer, Policy, PolicyError, plan};
use super::problem::{Costs, Micros, Task};
use super::replay::{Violation, replay};
use super::schedule::OpKind;
use super::tree::{Tree, TreeError};
use geometry::{GpuIndex, Model, Slice};
use std::collections::{HashMap, HashSet};

/// GPUs of one model as they are now, checked.
#[derive(Clone, Debug)]
pub struct Present {
    model: &'static Model,
    tree: Tree,
    costs: Costs,
    gpus: Vec<PresentGpu>,
    /// Number of each GPU's node, by first GPU.
    lanes: Vec<usize>,
}

/// Why a present state or a task cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PresentError {
    /// The model's placements make no tree.
    #[error("GPU model has no repartitioning tree")]
    Tree(#[from] TreeError),
    /// The model has no such profile, or not at this start.
    #[error("{node} GPU {index}: the model has no {profile} at {start}")]
    NoPlace {
        /// Name of the node.
        node: String,
        /// The GPU's index on the node.
        index: GpuIndex,
        /// Name of the instance's profile.
        profile: String,
        /// The instance's first placement unit.
        start: u8,
    },
    /// Two instances share a unit.
    #[error("{node} GPU {index}: instances overlap at {profile}@{start}")]
    Overlap {
        /// Name of the node.
        node: String,
        /// The GPU's index on the node.
        index: GpuIndex,
        /// Name of the profile of the later instance.
        profile: String,
        /// The instance's first placement unit.
        start: u8,
    },
    /// The same GPU is given twice.
    #[error("{node} GPU {index} is given twice")]
    Twice {
        /// Name of the node.
        node: String,
        /// The GPU's index on the node.
        index: GpuIndex,
    },
    /// No size of the model is among a task's times.
    #[error("none of the job's sizes is one of the model's: {0}")]
    NoSize(String),
    /// The tasks or the state cannot be planned.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The plan was refused by its own replay: a bug in the planner, and no plan.
    #[error("the plan does not replay, which is a bug")]
    Bug(#[source] Violation),
}

/// Where something is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PresentPlace {
    /// Index in [`Present::gpus`].
    pub gpu: usize,
    /// Name of the instance's profile.
    pub profile: &'static str,
    /// Compute slices of the instance.
    pub size: u8,
    /// First placement unit.
    pub start: u8,
}

/// What uses the units of a run before it, on the same GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum After {
    /// A job on the whole GPU: the run waits for [`PresentGpu::usable_from`].
    Gpu,
    /// A job on an instance that exists now: index in [`PresentGpu::instances`].
    Instance(usize),
    /// Another task of the plan.
    Task(usize),
}

/// One task's run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresentRun {
    /// Index of the task.
    pub task: usize,
    /// The instance that it runs on.
    pub at: PresentPlace,
    /// First instant, µs from now.
    pub begin: Micros,
    /// First instant after it.
    pub end: Micros,
    /// What must end before it begins, because it uses the same units last; ascending, empty if they are free now.
    pub after: Vec<After>,
}

/// One reconfiguration of a plan, in the terms of [`Present`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PresentOp {
    /// Whether it is a creation or a destruction.
    pub kind: OpKind,
    /// The instance that is created or destroyed.
    pub at: PresentPlace,
    /// First instant, µs from now.
    pub begin: Micros,
    /// First instant after it.
    pub end: Micros,
}

/// A plan over the present state, replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct PresentPlan {
    /// One per planned task, by task index.
    pub runs: Vec<PresentRun>,
    /// Reconfigurations, by begin.
    pub ops: Vec<PresentOp>,
    /// Indices of the tasks that cannot be planned now: every place of a size that they run at is in use without a known
    /// end.
    pub left_out: Vec<usize>,
    /// When the last task ends, µs from now.
    pub makespan: Micros,
    /// No plan of these tasks ends earlier, µs from now.
    pub lower_bound: Micros,
}

impl Present {
    /// GPUs of `model`, with the reconfiguration times of Table 1.
    ///
    /// # Errors
    ///
    /// [`PresentError`] if instances cannot exist together, or if one GPU is given twice.
    pub fn new(model: &'static Model, gpus: Vec<PresentGpu>) -> Result<Self, PresentError> {
        let tree = Tree::of(model)?;
        let costs = Costs::table_1(model, &tree);
        let (mut seen, mut first) = (HashSet::new(), HashMap::new());
        let mut lanes = Vec::new();
        for (k, gpu) in gpus.iter().enumerate() {
            let (node, index) = (gpu.node.as_str(), gpu.index);
            if !seen.insert((node, index)) {
                return Err(PresentError::Twice { node: node.to_owned(), index });
            }
            check_instances(model, gpu)?;
            lanes.push(*first.entry(node).or_insert(k));
        }
        Ok(Self { model, tree, costs, gpus, lanes })
    }

    /// One [`Present`] per model, in order of the first GPU of each.
    ///
    /// # Errors
    ///
    /// As [`Present::new`].
    pub fn by_model(gpus: Vec<(&'static Model, PresentGpu)>) -> Result<Vec<Self>, PresentError> {
        let mut groups: Vec<(&'static Model, Vec<PresentGpu>)> = Vec::new();
        for (model, gpu) in gpus {
            match groups.iter_mut().find(|(m, _)| m.key == model.key) {
                Some((_, group)) => group.push(gpu),
                None => groups.push((model, vec![gpu])),
            }
        }
        groups.into_iter().map(|(model, gpus)| Self::new(model, gpus)).collect()
    }

    /// The same with other reconfiguration times; as many as [`Present::sizes`].
    #[must_use]
    pub fn with_costs(mut self, costs: Costs) -> Self {
        self.costs = costs;
        self
    }

    /// The GPUs in the order given.
    #[must_use]
    pub fn gpus(&self) -> &[PresentGpu] {
        &self.gpus
    }

    /// The model of all these GPUs.
    #[must_use]
    pub fn model(&self) -> &'static Model {
        self.model
    }

    /// The instance sizes plans use, in compute slices, ascending.
    #[must_use]
    pub fn sizes(&self) -> &[u8] {
        &self.tree.sizes
    }

    /// A task from (compute slices, µs). Sizes that the model does not have are left out; of two times for one size the
    /// last counts.
    ///
    /// # Errors
    ///
    /// [`PresentError::NoSize`] if none is left.
    pub fn task(&self, times: &[(u8, Micros)]) -> Result<Task, PresentError> {
        let of = |size: &u8| times.iter().rev().find(|t| t.0 == *size).map(|t| t.1);
        let task = Task { times: self.tree.sizes.iter().map(of).collect() };
        if task.times.iter().all(Option::is_none) {
            let sizes: Vec<String> = self.tree.sizes.iter().map(|s| format!("{s}g")).collect();
            return Err(PresentError::NoSize(sizes.join(", ")));
        }
        Ok(task)
    }

    /// Plans `tasks` with `policy` ([`Policy::Tessera`] or [`Policy::Far`]) in `budget` steps
    /// ([`super::STEPS_PER_MS`]). The same state, tasks and budget give the same plan.
    ///
    /// # Errors
    ///
    /// [`PresentError::Policy`] for a task of no legal time or another policy on GPUs that are not empty;
    /// [`PresentError::Bug`] never, unless there is one.
    pub fn plan(&self, tasks: &[Task], policy: &Policy, budget: u64) -> Result<PresentPlan, PresentError> {
        let mut problem = self.problem();
        let somewhere = problem.somewhere();
        // What is wrong with a task is for the check to say; only a task that must wait is left out.
        let sound = |t: &Task| t.times.len() == somewhere.len() && t.times.iter().any(Option::is_some);
        let (planned, left_out): (Vec<usize>, Vec<usize>) =
            (0..tasks.len()).partition(|&k| !sound(&tasks[k]) || tasks[k].runs_at(&somewhere));
        if planned.is_empty() {
            let (runs, ops) = (Vec::new(), Vec::new());
            return Ok(PresentPlan { runs, ops, left_out, makespan: 0, lower_bound: 0 });
        }
        problem.tasks = planned.iter().map(|&k| tasks[k].clone()).collect();
        let answer = plan(&problem, policy, budget).map_err(|e| renumbered(e, &planned))?;
        let Answer { schedule, lower_bound, .. } = answer;
        let makespan = replay(&problem, &schedule).map_err(PresentError::Bug)?.makespan;
        let runs = self.runs(&schedule, &planned);
        let ops = self.ops(&schedule, &runs);
        Ok(PresentPlan { runs, ops, left_out, makespan, lower_bound })
    }
}

/// The error with the index of the task among all that were given.
fn renumbered(mut error: PolicyError, planned: &[usize]) -> PolicyError {
    if let PolicyError::Problem(problem) = &mut error
        && let Some(task) = problem.task_mut()
        && let Some(&given) = planned.get(*task)
    {
        *task = given;
    }
    error
}

fn check_instances(model: &Model, gpu: &PresentGpu) -> Result<(), PresentError> {
    let mut taken = 0;
    for PresentInstance { profile, start, .. } in &gpu.instances {
        let at = || (gpu.node.clone(), gpu.index, profile.clone(), *start);
        let legal = model.profile(profile).filter(|p| p.starts.contains(&Slice(*start)));
        let Some(legal) = legal else {
            let (node, index, profile, start) = at();
            return Err(PresentError::NoPlace { node, index, profile, start });
        };
        let mask = legal.at(Slice(*start)).mask();
        if taken & mask != 0 {
            let (node, index, profile, start) = at();
            return Err(PresentError::Overlap { node, index, profile, start });
        }
        taken |= mask;
    }
    Ok(())
}
