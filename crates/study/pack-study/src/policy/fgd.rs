//! Fragmentation Gradient Descent, from the paper's description.
//!
//! The fragmentation of a node is the GPU capacity on it that a task drawn from the typical tasks cannot use, in the mean. A
//! task goes where it lets that grow least. The published results come from scores that are rounded to hundredths of a
//! sigmoid, so that ties are frequent; their order is the run's.

use std::collections::HashMap;

use cluster_rank::{NodeView, Shape};

use crate::node::{Gpus, Node};
use crate::trace::{TaskSpec, Trace};

/// Share of all tasks that the typical ones make up.
const TYPICAL: f64 = 0.95;

/// The typical tasks with their shares, which add up to 1.
pub(crate) struct Fgd(Vec<(Shape, f64)>);

impl Fgd {
    /// Counts the shapes of the whole trace, as the published results do: this policy knows what will come.
    pub(crate) fn new(trace: &Trace) -> Self {
        let mut counts: HashMap<Shape, f64> = HashMap::new();
        trace.tasks.iter().for_each(|task| *counts.entry(task.shape).or_default() += 1.0);
        let mut all: Vec<(Shape, f64)> = counts.into_iter().collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
        #[expect(clippy::cast_precision_loss, reason = "traces have far below 2^52 tasks")]
        let wanted = TYPICAL * trace.tasks.len() as f64;
        let mut sum = 0.0;
        all.retain(|&(_, count)| {
            let wants_more = sum < wanted;
            sum += if wants_more { count } else { 0.0 };
            wants_more
        });
        all.iter_mut().for_each(|(_, count)| *count /= sum);
        Self(all)
    }

    /// Fragmentation of a node with these GPUs and cores free, in milli-GPUs.
    fn fragments(&self, free: &[u16], cores_milli: u32, model: u8) -> f64 {
        let total: f64 = free.iter().map(|&free| f64::from(free)).sum();
        let of = |shape: &Shape| {
            let node = NodeView { free_milli: free, cores_milli, model };
            if shape.gpus == 0 || !node.fits(shape) {
                return total;
            }
            free.iter().filter(|&&free| free < shape.milli).map(|&free| f64::from(free)).sum()
        };
        self.0.iter().map(|(shape, share)| share * of(shape)).sum()
    }

    /// Scores the task on these GPUs of the node, the least first.
    fn score_on(&self, node: &Node, task: &TaskSpec, gpus: &[usize], before: f64) -> f64 {
        let mut free = node.free.clone();
        gpus.iter().for_each(|&gpu| free[gpu] -= task.shape.milli);
        let after = self.fragments(&free, node.cpu_milli - task.shape.cores_milli, node.model);
        let sigmoid = 1.0 / (1.0 + (-(before - after) / 1000.0).exp());
        -(sigmoid * 100.0).trunc()
    }

    fn best(&self, node: &Node, task: &TaskSpec) -> (f64, Gpus) {
        let before = self.fragments(&node.free, node.cpu_milli, node.model);
        let on = |gpus: Gpus| (self.score_on(node, task, &gpus, before), gpus);
        if task.shape.gpus != 1 || task.shape.milli == 1000 {
            return on(node.first(task));
        }
        let mut best = (f64::INFINITY, Vec::new());
        for gpu in node.with_room(task) {
            let new = on(vec![gpu]);
            if new.0 < best.0 {
                best = new;
            }
        }
        best
    }

    pub(crate) fn score(&self, node: &Node, task: &TaskSpec) -> f64 {
        if node.view().fits(&task.shape) { self.best(node, task).0 } else { f64::INFINITY }
    }

    pub(crate) fn gpus(&self, node: &Node, task: &TaskSpec) -> Gpus {
        self.best(node, task).1
    }
}
