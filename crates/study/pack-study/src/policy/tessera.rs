//! Tessera's rank, with the mix learnt from what has arrived.

use cluster_rank::{Extent, Mix, Schedule, Tables};

use super::kept::Kept;
use super::rank::rank;
use crate::node::{Gpus, Node};
use crate::trace::{TaskSpec, Trace};

/// Shapes whose costs are kept.
const KEPT: usize = 64;

pub(crate) struct Tessera {
    mix: Mix,
    schedule: Schedule,
    largest: Extent,
    tables: Tables,
    kept: Kept,
}

impl Tessera {
    /// Begins with nothing learnt.
    pub(crate) fn new(trace: &Trace) -> Self {
        let gpus = trace.nodes.iter().map(|node| node.gpus).max().unwrap_or(0);
        let cores_milli = trace.nodes.iter().map(|node| node.cpu_milli).max().unwrap_or(0);
        let largest = Extent { gpus: u8::try_from(gpus).unwrap_or(u8::MAX), cores_milli };
        let mix = Mix::default();
        let tables = Tables::new(&mix, largest);
        let kept = Kept::new(KEPT, trace.nodes.len());
        Self { mix, schedule: Schedule::default(), largest, tables, kept }
    }

    /// Counts the task; builds the tables again when they are due. All tasks are of one account.
    pub(crate) fn arrived(&mut self, task: &TaskSpec) {
        self.mix.arrived(0, task.shape);
        if self.schedule.arrived() {
            self.tables = Tables::new(&self.mix, self.largest);
            self.kept.forget();
        }
    }

    pub(crate) fn changed(&mut self, node: usize) {
        self.kept.changed(node);
    }

    /// Chooses the node of the least cost with memory for the task. Among equals, one of which no other GPU is idle if the task takes one
    /// GPU, and of those the first.
    pub(crate) fn node(&mut self, nodes: &[Node], task: &TaskSpec) -> Option<usize> {
        let places = self.kept.places(&task.shape, |at| rank(&self.tables, &nodes[at].view(), &task.shape));
        let fits = |&(at, _): &(usize, _)| nodes[at].memory_mib >= task.memory_mib;
        let ranked = places.enumerate().filter(fits).filter_map(|(at, place)| {
            let place = place?;
            Some((place.cost, place.splits_idle, at))
        });
        ranked.min().map(|(.., at)| at)
    }

    /// Chooses the GPU that the rank means, or the first idle ones.
    pub(crate) fn gpus(&self, node: &Node, task: &TaskSpec) -> Gpus {
        match rank(&self.tables, &node.view(), &task.shape).and_then(|place| place.gpu) {
            Some(gpu) => vec![gpu],
            None => node.first(task),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Event, Run, Trace, arrivals};

    #[test]
    fn a_whole_gpu_goes_where_no_other_is_idle_then_to_the_first_node() {
        let nodes =
            "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,9000,2,T4\nn1,32000,9000,1,T4\nn2,32000,9000,1,T4\n";
        let tasks = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\nt,1000,1,1,1000,\n";
        let trace = Trace::read(("nodes", nodes), ("tasks", tasks)).unwrap();
        let all = arrivals(&trace, 1, 1.0).unwrap();
        let mut run = Run::new(&trace, "tessera", 1).unwrap();
        let at = all.iter().map(|&task| match run.decide(task) {
            Event::Place { node, .. } => Some(node),
            Event::Drop => None,
        });
        assert_eq!(at.collect::<Vec<_>>(), [1, 2, 0, 0].map(Some));
    }
}
