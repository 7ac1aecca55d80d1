//! What a question's best choice on a node costs everybody else, kept until the node changes.

use placement::{Fill, NodeCost, rank};
use protocol::{Isolation, Standing};
use site_config::NodeOrder;

use super::{CACHE_LIMIT, Engine, Question};

/// A node's cost for a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CostNow {
    /// Slurm alone places jobs there: it can serve nothing else.
    SlurmsOwn,
    /// The best choice that the node has now.
    Costs(NodeCost),
    /// The node has no room now, or nobody has looked.
    Unknown,
}

impl Engine {
    /// Returns which nodes the site wants to fill first for a question's job; `None`: Slurm's own order.
    pub(crate) fn fill(&self, question: &Question) -> Option<Fill> {
        match self.config.node_order(question.partition.as_deref()) {
            NodeOrder::Pack => Some(Fill::Pack),
            NodeOrder::Spread => Some(Fill::Spread),
            NodeOrder::Slurm => None,
        }
    }

    /// Returns the cost of the question's best choice on the node as it is now. What is not known is worked out as long as
    /// `searches` lasts.
    pub(crate) fn cost_now(
        &mut self,
        node: &str,
        question: &Question,
        fill: Fill,
        searches: &mut u32,
    ) -> CostNow {
        let Some(entry) = self.nodes.get_mut(node).filter(|e| !e.unmanaged) else {
            return CostNow::SlurmsOwn;
        };
        if entry.standing != Standing::Same {
            return CostNow::Unknown;
        }
        let key = (question.key.clone(), fill);
        if let Some(known) = entry.costs.get(&key) {
            return known.map_or(CostNow::Unknown, CostNow::Costs);
        }
        let Some(left) = searches.checked_sub(question.searches_on(entry.node.gpus.len())) else {
            return CostNow::Unknown;
        };
        *searches = left;
        let cost = rank(&entry.node, &question.decide(&entry.node), fill);
        if entry.costs.len() >= CACHE_LIMIT {
            entry.costs.clear();
        }
        entry.costs.insert(key, cost);
        cost.map_or(CostNow::Unknown, CostNow::Costs)
    }
}

impl Question {
    /// Units of [`super::SEARCHES`] that a decision on a node with so many GPUs takes: sets of several GPUs are searched for.
    fn searches_on(&self, gpus: usize) -> u32 {
        let request = &self.ask.request;
        let is_set = request.isolation == Isolation::Whole && request.gpus != Some(1);
        match (is_set, gpus > super::best::FEW_FREE) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => super::best::MANY_COST,
        }
    }
}
