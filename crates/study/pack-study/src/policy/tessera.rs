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

    /// Chooses the node of the least cost with memory for the task; the first among equals.
    pub(crate) fn node(&mut self, nodes: &[Node], task: &TaskSpec) -> Option<usize> {
        let places = self.kept.places(&task.shape, |at| rank(&self.tables, &nodes[at].view(), &task.shape));
        let fits = |&(at, _): &(usize, _)| nodes[at].memory_mib >= task.memory_mib;
        let ranked = places.enumerate().filter(fits).filter_map(|(at, place)| Some((place?.cost, at)));
        ranked.min().map(|(_, at)| at)
    }

    /// Chooses the GPU that the rank means, or the first idle ones.
    pub(crate) fn gpus(&self, node: &Node, task: &TaskSpec) -> Gpus {
        match rank(&self.tables, &node.view(), &task.shape).and_then(|place| place.gpu) {
            Some(gpu) => vec![gpu],
            None => node.first(task),
        }
    }
}
