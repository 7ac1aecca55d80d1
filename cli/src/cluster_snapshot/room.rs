//! What is free on the nodes that take jobs.

use super::node::NodeSeen;
use super::usage::Slices;

/// The nodes that take jobs and whose GPUs are known, and what is free there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreeRoom {
    pub(crate) slices: Slices,
    pub(crate) gpus: usize,
    pub(crate) nodes: usize,
    /// All nodes, these included.
    pub(crate) of_nodes: usize,
}

pub(crate) fn room(nodes: &[&NodeSeen]) -> FreeRoom {
    let able = || nodes.iter().filter(|node| !node.in_use().is_away());
    FreeRoom {
        slices: able().map(|node| node.slices()).sum(),
        gpus: able().map(|node| node.gpus.iter().flatten().count()).sum(),
        nodes: able().count(),
        of_nodes: nodes.len(),
    }
}

impl FreeRoom {
    /// `5 of 16 compute slices free on 4 GPUs of 3 nodes`; where not all nodes take jobs, `of 3 of the 4 nodes`.
    pub(crate) fn words(self) -> String {
        let n = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let Slices { free, all } = self.slices;
        let nodes = match self.of_nodes {
            of if of == self.nodes => n(of, "node"),
            of => format!("{} of the {}", self.nodes, n(of, "node")),
        };
        format!("{free} of {all} compute slices free on {} of {nodes}", n(self.gpus, "GPU"))
    }
}
