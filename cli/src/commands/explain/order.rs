//! Which of several nodes with room the job gets, and why.

use node_state::{Ask, Policy};
use placement::{NodeCost, decide};

use super::nodes::AskedNodes;
use crate::node_answer::seen_by;
use crate::render::hosts;

/// Nodes with room, those that cost the others least first; nodes of one cost together. Empty where Slurm's own order holds.
#[derive(Default)]
pub(super) struct Order(Vec<(NodeCost, Vec<String>)>);

impl Order {
    /// The order for a job that gets one node.
    pub(super) fn of(asked: &AskedNodes, ask: &Ask, policy: &Policy) -> Self {
        let Some(fill) = asked.config.node_order(asked.caller.partition.as_deref()) else {
            return Self::default();
        };
        let mut all: Vec<(NodeCost, Vec<String>)> = Vec::new();
        for (names, node) in asked.alike() {
            let node = seen_by(node, ask);
            let Some(cost) = placement::rank(&node, &decide(&node, ask, policy)) else { continue };
            let cost = cost.under(fill);
            match all.iter_mut().find(|(known, _)| *known == cost) {
                Some((_, known)) => known.extend(names),
                None => all.push((cost, names)),
            }
        }
        all.sort_by_key(|(cost, _)| *cost);
        Self(all)
    }

    /// The place of the first of these nodes; after all others if none of them has room.
    pub(super) fn place(&self, names: &[String]) -> usize {
        let has_one = |(_, all): &(NodeCost, Vec<String>)| all.iter().any(|name| names.contains(name));
        self.0.iter().position(has_one).unwrap_or(self.0.len())
    }

    /// Says in one sentence which nodes Slurm takes first, and what they have over the next. `None` where all cost the same.
    pub(super) fn sentence(&self) -> Option<String> {
        let [(first, names), (second, others), ..] = &self.0[..] else { return None };
        let why = first.advantage_over(second)?;
        Some(format!("{} before {}: {why}", hosts::brief(names), hosts::brief(others)))
    }
}
