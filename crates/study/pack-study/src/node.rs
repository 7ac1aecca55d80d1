//! Free resources of a node.

use cluster_rank::NodeView;

use crate::trace::{NodeSpec, TaskSpec};

/// A node while the simulation runs.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Capacity left of each GPU, in thousandths.
    pub(crate) free: Vec<u16>,
    pub(crate) cpu_milli: u32,
    pub(crate) memory_mib: u64,
    pub(crate) model: u8,
}

/// The GPUs that a task takes, by their numbers in the node.
pub(crate) type Gpus = Vec<usize>;

impl Node {
    pub(crate) fn new(spec: &NodeSpec) -> Self {
        let free = vec![1000; spec.gpus];
        Self { free, cpu_milli: spec.cpu_milli, memory_mib: spec.memory_mib, model: spec.model }
    }

    pub(crate) fn view(&self) -> NodeView<'_> {
        NodeView { free_milli: &self.free, cores_milli: self.cpu_milli, model: self.model }
    }

    pub(crate) fn fits(&self, task: &TaskSpec) -> bool {
        self.memory_mib >= task.memory_mib && self.view().fits(&task.shape)
    }

    /// Lists the GPUs that have room for one GPU of the task.
    pub(crate) fn with_room<'a>(&'a self, task: &TaskSpec) -> impl Iterator<Item = usize> + 'a {
        let milli = task.shape.milli;
        (0..self.free.len()).filter(move |&gpu| self.free[gpu] >= milli)
    }

    /// Chooses the first GPUs with room.
    pub(crate) fn first(&self, task: &TaskSpec) -> Gpus {
        self.with_room(task).take(usize::from(task.shape.gpus)).collect()
    }

    /// Chooses the GPUs with the least room that suffices; the first among equals.
    pub(crate) fn fullest(&self, task: &TaskSpec) -> Gpus {
        let mut all: Gpus = self.with_room(task).collect();
        all.sort_by_key(|&gpu| self.free[gpu]);
        all.truncate(usize::from(task.shape.gpus));
        all
    }

    pub(crate) fn take(&mut self, task: &TaskSpec, gpus: &[usize]) {
        self.cpu_milli -= task.shape.cores_milli;
        self.memory_mib -= task.memory_mib;
        for &gpu in gpus {
            self.free[gpu] -= task.shape.milli;
        }
    }

    pub(crate) fn free_milli(&self) -> u32 {
        self.free.iter().map(|&free| u32::from(free)).sum()
    }
}
