//! Runs a policy over a stream of arrivals.

use serde_json::json;

use crate::draw::Draw;
use crate::node::{Gpus, Node};
use crate::policy::Policy;
use crate::scores::Scores;
use crate::trace::Trace;

/// Sets the chances of policies apart from those of arrivals.
const TIES: u64 = 0x7465_7373_6572_6121;

/// A simulation, one arrival at a time.
pub struct Run<'a> {
    trace: &'a Trace,
    policy: Policy,
    nodes: Vec<Node>,
    scores: Scores,
    /// The order of nodes that score the same under a published policy. In the published runs it was that of names that the
    /// traces no longer have; here the seed draws it.
    ties: Vec<u32>,
    draw: Draw,
    placed: usize,
    dropped: usize,
}

/// Outcome of an arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It has these GPUs of this node.
    Place {
        /// Position of the node in the trace.
        node: usize,
        /// GPUs, from 0 in the node.
        gpus: Vec<usize>,
    },
    /// No node had room.
    Drop,
}

/// Summary of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// GPUs of the cluster.
    pub gpus: usize,
    /// GPUs that are left, with fractions.
    pub unallocated: f64,
    /// Share of the GPUs that is in use, 0 to 1.
    pub allocated: f64,
    /// Tasks that got a place.
    pub placed: usize,
    /// Tasks that found none.
    pub dropped: usize,
}

impl<'a> Run<'a> {
    /// Begins with an empty cluster. `None`: the policy is not one of [`crate::NAMES`].
    #[must_use]
    pub fn new(trace: &'a Trace, policy: &str, seed: u64) -> Option<Self> {
        let policy = Policy::named(policy, trace)?;
        let nodes: Vec<Node> = trace.nodes.iter().map(Node::new).collect();
        let scores = Scores::new(trace.shapes, nodes.len());
        let mut draw = Draw::new(seed ^ TIES);
        let ties = draw.order(nodes.len());
        Some(Self { trace, policy, nodes, scores, ties, draw, placed: 0, dropped: 0 })
    }

    /// Decides where the task goes, and puts it there.
    pub fn decide(&mut self, task: usize) -> Event {
        let task = &self.trace.tasks[task];
        self.policy.arrived(task);
        let Some(node) = self.policy.node(&self.nodes, task, &mut self.scores, &self.ties, &mut self.draw)
        else {
            self.dropped += 1;
            return Event::Drop;
        };
        let gpus: Gpus = self.policy.gpus(&self.nodes[node], task, &mut self.draw);
        self.nodes[node].take(task, &gpus);
        self.scores.changed(node);
        self.policy.changed(node);
        self.placed += 1;
        Event::Place { node, gpus }
    }

    /// Sums up what is in use.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a cluster has far below 2^52 GPUs")]
    pub fn summary(&self) -> Summary {
        let gpus = self.trace.gpus();
        let left: u64 = self.nodes.iter().map(|node| u64::from(node.free_milli())).sum();
        let unallocated = left as f64 / 1000.0;
        Summary {
            gpus,
            unallocated,
            allocated: 1.0 - unallocated / gpus as f64,
            placed: self.placed,
            dropped: self.dropped,
        }
    }
}

impl Event {
    /// Prints the event as a line of JSON. `at` counts arrivals from 0.
    #[must_use]
    pub fn line(&self, trace: &Trace, at: usize, task: usize) -> String {
        let task = &trace.tasks[task].name;
        match self {
            Self::Place { node, gpus } => {
                let node = &trace.nodes[*node].name;
                json!({"ev": "place", "i": at, "task": task, "node": node, "gpus": gpus}).to_string()
            }
            Self::Drop => json!({"ev": "drop", "i": at, "task": task}).to_string(),
        }
    }
}
