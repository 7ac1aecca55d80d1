//! The output of a planner: when each task runs where, and when instances are created and destroyed.

use super::problem::Micros;

/// One task's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Index of the task.
    pub task: usize,
    /// Index of the GPU.
    pub gpu: usize,
    /// Index of the place in the tree.
    pub node: usize,
    /// First instant, µs from the plan's beginning.
    pub begin: Micros,
    /// First instant after it, µs.
    pub end: Micros,
}

/// The two kinds of reconfiguration; destructions sort first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpKind {
    /// The instance is destroyed.
    Destroy,
    /// The instance is created.
    Create,
}

/// One reconfiguration; those of one lane never overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// Whether it is a creation or a destruction.
    pub kind: OpKind,
    /// Index of the GPU.
    pub gpu: usize,
    /// Index of the place in the tree.
    pub node: usize,
    /// First instant, µs from the plan's beginning.
    pub begin: Micros,
    /// First instant after it, µs.
    pub end: Micros,
}

/// A complete plan for one batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// One per task, by task index.
    pub runs: Vec<Run>,
    /// Reconfigurations, by begin and end.
    pub ops: Vec<Op>,
}

impl Schedule {
    /// When the last task ends, µs; 0 for an empty batch. Destructions after it do not count, as in the paper.
    #[must_use]
    pub fn makespan(&self) -> Micros {
        self.runs.iter().map(|r| r.end).max().unwrap_or(0)
    }
}
