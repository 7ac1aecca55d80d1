//! The cost for other jobs of a question's best choice on a node, kept until the node changes.

use node_state::{Fill, Node};
use placement::{NodeCost, rank};
use protocol::{Grant, Isolation, ShareOn, Standing};

use super::question::Number;
use super::{Engine, Named, NodeEntry, Question, keep};

/// A node's cost for a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CostNow {
    /// Slurm alone places jobs there: it can serve nothing else.
    SlurmsOwn,
    /// The best choice that the node has now.
    Costs(NodeCost),
    /// The node has no room now, for the job's GPUs or its CPUs, or nobody has looked.
    Unknown,
}

/// Capacity that a choice takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// So many idle GPUs.
    Whole(usize),
    /// A share of a GPU without MIG: the GPU's place on the node, and the share's memory.
    Share(usize, u64),
    /// Instances, or seats in the pool of GPU tasks.
    Else,
}

impl Takes {
    fn of(grant: &Grant) -> Self {
        match grant {
            Grant::Whole(gpus) => Self::Whole(gpus.len()),
            Grant::Mps { on: ShareOn::Gpu(gpu), mem_mib, .. } => Self::Share(usize::from(gpu.0), *mem_mib),
            Grant::Mps { .. } | Grant::Mig(_) | Grant::Compute { .. } | Grant::Tasks(_) => Self::Else,
        }
    }
}

impl NodeEntry {
    /// Decides, and keeps what the choice costs; `None`: no room.
    pub(super) fn weigh(&mut self, number: Number, question: &Question) -> Option<(NodeCost, Takes)> {
        let decision = question.decide(&self.node);
        let takes = decision.chosen.as_ref().map(Takes::of);
        let cost = rank(&self.node, &decision).zip(takes);
        keep(&mut self.costs, number, cost.map(Box::new));
        cost
    }
}

impl Engine {
    /// Returns which nodes the site wants to fill first for a question's job; `None`: Slurm's own order.
    pub(crate) fn fill(&self, question: &Question) -> Option<Fill> {
        site_limits::node_order(&self.config, question.partition.as_deref())
    }

    /// Returns the cost of the question's best choice on the node as it is now. What is not known is worked out as long as
    /// `searches` lasts. `expected` tells what is expected to stay unused because of it ([`NodeCost::expected`]); `None`: no room for the job's CPUs.
    pub(crate) fn cost_now<N: Named + ?Sized>(
        &mut self,
        node: &N,
        question: &Question,
        fill: Fill,
        searches: &mut u32,
        expected: impl FnOnce(&Node, Takes) -> Option<i64>,
    ) -> CostNow {
        let number = self.number(question);
        let Some(entry) = self.nodes.get_mut(node).filter(|e| !e.unmanaged) else {
            return CostNow::SlurmsOwn;
        };
        if entry.standing != Standing::Same {
            return CostNow::Unknown;
        }
        let cost = match entry.costs.get(&number) {
            Some(known) => known.as_deref().copied(),
            None => match searches.checked_sub(question.searches_on(entry.node.gpus.len())) {
                Some(left) => {
                    *searches = left;
                    entry.weigh(number, question)
                }
                None => None,
            },
        };
        let Some((cost, takes)) = cost else { return CostNow::Unknown };
        let expected = expected(&entry.node, takes);
        expected
            .map_or(CostNow::Unknown, |expected| CostNow::Costs(NodeCost { expected, ..cost }.under(fill)))
    }
}

impl Question {
    /// Units of [`super::SEARCHES`] that a decision on a node with so many GPUs takes: sets of several GPUs are searched for.
    fn searches_on(&self, gpus: usize) -> u32 {
        match (self.is_whole() && self.ask.request.gpus != Some(1), gpus > super::best::FEW_FREE) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => super::best::MANY_COST,
        }
    }

    /// Tells whether its job gets whole GPUs: that there are enough is seen without a decision.
    pub(super) fn is_whole(&self) -> bool {
        self.ask.request.isolation == Isolation::Whole
    }
}
