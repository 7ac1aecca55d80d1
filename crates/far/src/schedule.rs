//! What a planner answers: when each task runs where, and when instances are made and unmade.

use super::problem::Micros;

/// One task's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Index of the task.
    pub task: usize,
    /// Index of the GPU.
    pub gpu: usize,
    /// Place in the tree.
    pub node: usize,
    /// First instant, µs from the plan's beginning.
    pub begin: Micros,
    /// First instant after it.
    pub end: Micros,
}

/// What is done to an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpKind {
    /// Destroyed.
    Destroy,
    /// Created.
    Create,
}

/// One reconfiguration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// Creation or destruction.
    pub kind: OpKind,
    /// Index of the GPU.
    pub gpu: usize,
    /// Place in the tree.
    pub node: usize,
    /// First instant, µs from the plan's beginning.
    pub begin: Micros,
    /// First instant after it.
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
