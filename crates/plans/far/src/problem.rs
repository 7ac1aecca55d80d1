//! The input of a planner: the GPUs as they are, the tasks, and the times of reconfigurations.

use super::tree::{Tree, TreeError};
use geometry::Model;

/// Microseconds: times are whole numbers, so that sums compare exactly and a plan is the same on every machine.
pub type Micros = u64;

/// The longest time that a task may take, µs (about four months).
pub const MAX_TIME: Micros = 10_000_000_000_000;

/// The largest sum of the tasks' longest times, and the latest instant of a present state, µs (about a thousand years).
/// Plans within this never overflow.
pub const MAX_TOTAL: Micros = 1 << 55;

/// The most tasks of a batch.
pub const MAX_TASKS: usize = 1 << 20;

/// The longest time that a creation or destruction may take, µs (an hour).
pub const MAX_COST: Micros = 3_600_000_000;

/// How long creating and destroying an instance takes, by size class of the tree. Operations of GPUs with the same
/// [`GpuNow::lane`] never overlap: the driver runs them one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Creation, µs, one per size.
    pub create: Vec<Micros>,
    /// Destruction, µs, one per size.
    pub destroy: Vec<Micros>,
}

impl Costs {
    /// The measured times of the paper's Table 1 for the architecture: A30 and A100 their own, everything from Hopper
    /// on H100's. A model with the A30's sizes that is not an A30 (RTX PRO) has no published times and gets the A30's.
    ///
    /// Source: FAR, Table 1.
    #[must_use]
    pub fn table_1(model: &Model, tree: &Tree) -> Self {
        const MS: Micros = 1000;
        let row = |size: u8| match (tree.slices, model.arch.as_str(), size) {
            (4, _, 1) => (110, 100),
            (4, _, 2) => (120, 100),
            (4, _, _) => (130, 100),
            (_, "ampere", 1) => (160, 200),
            (_, "ampere", 2) => (170, 200),
            (_, "ampere", 3) => (200, 210),
            (_, "ampere", 4) => (210, 210),
            (_, "ampere", _) => (240, 220),
            (_, _, 1) => (160, 210),
            (_, _, 2) => (210, 230),
            (_, _, 3) => (330, 250),
            (_, _, 4) => (380, 260),
            (..) => (420, 260),
        };
        let (create, destroy) = tree.sizes.iter().map(|&s| row(s)).map(|(c, d)| (c * MS, d * MS)).unzip();
        Self { create, destroy }
    }
}

/// A moldable task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Running time, µs, on an instance of each of [`Tree::sizes`]; `None` where it cannot run. At least one is given.
    pub times: Vec<Option<Micros>>,
}

impl Task {
    /// Whether it runs at one of the sizes that are `offered`.
    pub(super) fn runs_at(&self, offered: &[bool]) -> bool {
        self.times.iter().zip(offered).any(|(time, &offered)| time.is_some() && offered)
    }
}

/// An instance that exists when the plan begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Index of its place in [`Tree::nodes`].
    pub node: usize,
    /// When its present job ends, µs from the plan's beginning: 0 for an idle one, `None` if nobody knows. An instance
    /// of unknown end is neither used nor destroyed, and its slices stay out of the plan.
    pub until: Option<Micros>,
}

/// Units that come free later although no instance of the plan is there: one was destroyed late, or something else
/// holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The units, bit 0 for unit 0.
    pub mask: u16,
    /// When an instance may be created there, µs; `None` if nobody knows, and the units stay out of the plan.
    pub until: Option<Micros>,
}

/// One GPU when the plan begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuNow {
    /// GPUs of one lane reconfigure one after another: the node's number where GPUs are on several nodes.
    pub lane: usize,
    /// Instances that exist; they do not overlap.
    pub held: Vec<Held>,
    /// Units that come free later although no instance is there.
    pub blocked: Vec<Blocked>,
}

/// A stretch of time in which a lane is already reconfiguring, for a plan that continues another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// The lane, as in [`GpuNow::lane`].
    pub lane: usize,
    /// First instant, µs.
    pub begin: Micros,
    /// First instant after it, µs.
    pub end: Micros,
}

/// A batch to plan. GPUs are of one model.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The model's places.
    pub tree: Tree,
    /// What reconfiguration costs.
    pub costs: Costs,
    /// The GPUs, at least one.
    pub gpus: Vec<GpuNow>,
    /// Reconfiguration that is already planned.
    pub busy: Vec<Busy>,
    /// The tasks of the batch; plans name them by their index here.
    pub tasks: Vec<Task>,
}

/// Why a batch cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProblemError {
    /// The model's placements make no tree.
    #[error("GPU model has no repartitioning tree")]
    Tree(#[from] TreeError),
    /// No GPU was given.
    #[error("no GPU to plan on")]
    NoGpu,
    /// A task without exactly one entry per size.
    #[error("job {task} has {}, the GPU has {}", geometry::counted(*found, "time"), geometry::counted(*expected, "instance size"))]
    Sizes {
        /// Index of the task.
        task: usize,
        /// Number of times given for the task.
        found: usize,
        /// Number of sizes that the GPU has.
        expected: usize,
    },
    /// A task whose every time is absent, or with one of zero or beyond [`MAX_TIME`].
    #[error("job {task}: a time must be more than 0 and at most {} s, and one size must be possible", MAX_TIME / 1_000_000)]
    Time {
        /// Index of the task.
        task: usize,
    },
    /// Instances of the present state overlap or lie at no place of the tree.
    #[error("GPU {gpu}: instances of the present state overlap or are at no legal placement")]
    Held {
        /// Index of the GPU.
        gpu: usize,
    },
    /// Tasks that together last longer than [`MAX_TOTAL`].
    #[error("the jobs' longest times sum to more than {} years", MAX_TOTAL / YEAR)]
    Total,
    /// More tasks than [`MAX_TASKS`].
    #[error("a batch has at most {MAX_TASKS} jobs")]
    Many,
    /// Costs that are not one per size, or one beyond [`MAX_COST`].
    #[error("a reconfiguration cost per instance size is needed, each at most {} s", MAX_COST / 1_000_000)]
    Costs,
    /// An instant of the present state beyond [`MAX_TOTAL`], or a stretch that ends before it begins.
    #[error("the present state reaches further than {} years, or backwards", MAX_TOTAL / YEAR)]
    Instant,
    /// No free place is large enough for the task: the instances in the way have no known end.
    #[error("job {task} fits nowhere: every place of a size it can run on is held without a known end")]
    Nowhere {
        /// Index of the task.
        task: usize,
    },
}

impl ProblemError {
    /// The task it is about.
    pub(super) fn task_mut(&mut self) -> Option<&mut usize> {
        match self {
            Self::Sizes { task, .. } | Self::Time { task } | Self::Nowhere { task } => Some(task),
            _ => None,
        }
    }
}

const YEAR: Micros = 31_557_600_000_000;

impl Problem {
    /// `gpus` empty GPUs of `model`, reconfigured one after another, with the costs of Table 1.
    ///
    /// # Errors
    ///
    /// [`ProblemError`] as [`Problem::check`] gives it.
    pub fn new(model: &Model, gpus: usize, tasks: Vec<Task>) -> Result<Self, ProblemError> {
        let tree = Tree::of(model)?;
        let costs = Costs::table_1(model, &tree);
        let problem = Self { tree, costs, gpus: vec![GpuNow::default(); gpus], busy: Vec::new(), tasks };
        problem.check()?;
        Ok(problem)
    }

    /// Checks everything the planners rely on.
    ///
    /// # Errors
    ///
    /// The first [`ProblemError`] found.
    pub fn check(&self) -> Result<(), ProblemError> {
        if self.gpus.is_empty() {
            return Err(ProblemError::NoGpu);
        }
        for (gpu, now) in self.gpus.iter().enumerate() {
            let mut taken = 0;
            for held in &now.held {
                let node = self.tree.nodes.get(held.node).ok_or(ProblemError::Held { gpu })?;
                if taken & node.mask != 0 {
                    return Err(ProblemError::Held { gpu });
                }
                taken |= node.mask;
            }
        }
        if self.tasks.len() > MAX_TASKS {
            return Err(ProblemError::Many);
        }
        self.check_costs()?;
        self.check_instants()?;
        let offered = self.somewhere();
        self.tasks.iter().enumerate().try_for_each(|(task, t)| self.check_task(task, t, &offered))?;
        let longest = |t: &Task| t.times.iter().flatten().copied().max().unwrap_or(0);
        let total = self.tasks.iter().map(longest).fold(0, Micros::saturating_add);
        if total > MAX_TOTAL { Err(ProblemError::Total) } else { Ok(()) }
    }

    fn check_costs(&self) -> Result<(), ProblemError> {
        let Costs { create, destroy } = &self.costs;
        let complete = [create, destroy].iter().all(|c| c.len() == self.tree.sizes.len());
        let small = create.iter().chain(destroy).all(|&c| c <= MAX_COST);
        if complete && small { Ok(()) } else { Err(ProblemError::Costs) }
    }

    fn check_instants(&self) -> Result<(), ProblemError> {
        let held = self.gpus.iter().flat_map(|g| g.held.iter().filter_map(|h| h.until));
        let blocked = self.gpus.iter().flat_map(|g| g.blocked.iter().filter_map(|b| b.until));
        let early = held.chain(blocked).chain(self.busy.iter().map(|b| b.end)).all(|at| at <= MAX_TOTAL);
        let forwards = self.busy.iter().all(|b| b.begin <= b.end);
        if early && forwards { Ok(()) } else { Err(ProblemError::Instant) }
    }

    /// Per size class, whether some place of it will be free one day.
    pub(super) fn somewhere(&self) -> Vec<bool> {
        let mut offered = vec![false; self.tree.sizes.len()];
        for gpu in 0..self.gpus.len() {
            for (node, place) in self.tree.nodes.iter().enumerate() {
                offered[place.class] |= self.usable(gpu, node);
            }
        }
        offered
    }

    fn check_task(&self, task: usize, t: &Task, offered: &[bool]) -> Result<(), ProblemError> {
        if t.times.len() != self.tree.sizes.len() {
            return Err(ProblemError::Sizes { task, found: t.times.len(), expected: self.tree.sizes.len() });
        }
        let mut given = t.times.iter().flatten().peekable();
        if given.peek().is_none() || given.any(|&time| time == 0 || time > MAX_TIME) {
            return Err(ProblemError::Time { task });
        }
        if t.runs_at(offered) { Ok(()) } else { Err(ProblemError::Nowhere { task }) }
    }

    /// Whether a place of a GPU will be free one day: nothing of unknown end is in it.
    #[must_use]
    pub fn usable(&self, gpu: usize, node: usize) -> bool {
        let mask = self.tree.nodes[node].mask;
        let held = |h: &Held| h.until.is_none() && self.tree.nodes[h.node].mask & mask != 0;
        let blocked = |b: &Blocked| b.until.is_none() && b.mask & mask != 0;
        !self.gpus[gpu].held.iter().any(held) && !self.gpus[gpu].blocked.iter().any(blocked)
    }

    /// True if nothing exists and nothing is planned: the paper's starting point.
    #[must_use]
    pub fn starts_empty(&self) -> bool {
        self.busy.is_empty() && self.gpus.iter().all(|g| g.held.is_empty() && g.blocked.is_empty())
    }

    /// The paper's baseline (section 6.4): every task's least work, spread evenly over all slices; µs, rounded up.
    #[must_use]
    pub fn baseline(&self) -> Micros {
        let work = |t: &Task| {
            let per_size =
                t.times.iter().zip(&self.tree.sizes).filter_map(|(&t, &s)| Some(t? * u64::from(s)));
            per_size.min().unwrap_or(0)
        };
        let slices = u64::from(self.tree.slices) * self.gpus.len() as u64;
        self.tasks.iter().map(work).sum::<u64>().div_ceil(slices)
    }
}
