//! The cluster of a stream, and its jobs.

use node_state::{Node, Policy};
use protocol::Request;

/// A node without jobs.
#[derive(Clone, Debug)]
pub struct StreamNode {
    /// Name, unique in the site.
    pub name: String,
    /// GPUs of the node.
    pub node: Node,
    /// Cores of the node.
    pub cpus: u32,
    /// Memory of the node, MiB.
    pub mem_mib: u64,
}

/// The nodes in Slurm's order, and how GPUs are given out.
#[derive(Clone, Debug)]
pub struct StreamSite {
    /// The nodes.
    pub nodes: Vec<StreamNode>,
    /// The site's preferences.
    pub policy: Policy,
}

/// A job. It asks the same of each of its nodes.
#[derive(Clone, Debug)]
pub struct StreamJob {
    /// Name, for events.
    pub id: String,
    /// When it is submitted, ms.
    pub submit_ms: u64,
    /// How long it runs, ms.
    pub run_ms: u64,
    /// Cores on each node.
    pub cpus: u32,
    /// Memory on each node, MiB.
    pub mem_mib: u64,
    /// How many nodes, from 1.
    pub nodes: usize,
    /// Request; never [`protocol::Isolation::None`].
    pub request: Request,
    /// It uses none of Tessera's options.
    pub plain: bool,
}

impl StreamSite {
    /// Adds up the GPUs.
    #[must_use]
    pub fn gpus(&self) -> usize {
        self.nodes.iter().map(|node| node.node.gpus.len()).sum()
    }

    /// Tells whether the job asks for all GPUs of the largest node.
    #[must_use]
    pub fn asks_for_node(&self, job: &StreamJob) -> bool {
        let most = self.nodes.iter().map(|node| node.node.gpus.len()).max().unwrap_or(0);
        job.request.gpus.is_some_and(|gpus| usize::try_from(gpus) == Ok(most))
    }
}
