//! Orders nodes with room as a job gets them, and says why.

use std::collections::HashMap;

use node_state::{Ask, Fill, Policy};
use placement::{NodeCost, decide};
use serde_json::{Value, json};

use super::{Verdict, rank, seen_by};
use crate::render::hosts;
use crate::slurm_nodes::{Live, Whose};

/// A node's place for a job, as the select plugin gives it to Slurm: least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// `Weight` in Slurm.
    weight: u64,
    /// `None`: the node is left to Slurm and serves no other jobs.
    cost: Option<NodeCost>,
}

impl Place {
    /// Says what nodes of this place have over `others` of the next; `None`: nothing that a user needs to know.
    fn advantage_over(&self, next: &Self, others: &str) -> Option<String> {
        if self.weight != next.weight {
            return Some(format!("Weight={} in Slurm, Weight={} on {others}", self.weight, next.weight));
        }
        match (self.cost, next.cost) {
            (Some(own), Some(next)) => own.advantage_over(&next, others),
            (None, Some(_)) => Some("left to Slurm, where no job with Tessera's options can run".to_owned()),
            (_, None) => None,
        }
    }
}

/// Nodes where a job may start, in the order in which it gets them; nodes of one place together. Empty where Slurm's own order holds.
#[derive(Default)]
pub(crate) struct NodeOrder(Vec<(Place, Vec<String>)>);

impl NodeOrder {
    /// The order for a job that gets one node, on nodes that the site fills this way; `None`: by Slurm.
    pub(crate) fn of(live: &Live, fill: Option<Fill>, ask: &Ask, policy: &Policy) -> Self {
        let Some(fill) = fill else { return Self::default() };
        let mut known: HashMap<usize, Option<NodeCost>> = HashMap::new();
        let mut all: Vec<(Place, Vec<String>)> = Vec::new();
        let mut put = |place: Place, name: &String| match all.iter_mut().find(|(known, _)| *known == place) {
            Some((_, names)) => names.push(name.clone()),
            None => all.push((place, vec![name.clone()])),
        };
        for present in &live.nodes {
            let cost = *known.entry(present.state).or_insert_with(|| {
                let node = seen_by(&present.node, ask);
                placement::rank(&node, &decide(&node, &ask.on(&node), policy)).map(|cost| cost.under(fill))
            });
            if cost.is_some() {
                put(Place { weight: present.weight, cost }, &present.name);
            }
        }
        for left in live.aside.iter().filter(|left| ask.plain && left.whose == Whose::Slurms) {
            put(Place { weight: left.weight, cost: None }, &left.name);
        }
        all.sort_by_key(|(place, _)| *place);
        Self(all)
    }

    /// The place of the first of these nodes; after all others if none of them has room.
    pub(crate) fn place(&self, names: &[String]) -> usize {
        let has_one = |(_, all): &(Place, Vec<String>)| all.iter().any(|name| names.contains(name));
        self.0.iter().position(has_one).unwrap_or(self.0.len())
    }

    /// Puts verdicts in the order in which the job gets the nodes: where it has room or Slurm decides by this order, and the others as
    /// they come. Where the order does not say which of two comes first, it is the one with room.
    pub(crate) fn sort(&self, verdicts: &mut [(Vec<String>, Verdict)]) {
        let by_slurm = |verdict: &Verdict| matches!(verdict, Verdict::Slurm(_));
        verdicts.sort_by_key(|(names, verdict)| (rank(verdict).0, self.place(names), by_slurm(verdict)));
    }

    /// Splits nodes that say the same into those of one cost, so that each has its place.
    pub(crate) fn split(&self, verdicts: Vec<(Vec<String>, Verdict)>) -> Vec<(Vec<String>, Verdict)> {
        let mut all = Vec::new();
        for (names, verdict) in verdicts {
            let mut parts: Vec<(usize, Vec<String>)> = Vec::new();
            for name in names {
                let place = self.place(std::slice::from_ref(&name));
                match parts.iter_mut().find(|(known, _)| *known == place) {
                    Some((_, names)) => names.push(name),
                    None => parts.push((place, vec![name])),
                }
            }
            all.extend(parts.into_iter().map(|(_, names)| (names, verdict.clone())));
        }
        all
    }

    /// Says in one sentence which nodes Slurm takes first, and what they have over the next. `None` where all cost the same.
    pub(crate) fn sentence(&self) -> Option<String> {
        let (names, others, why) = self.first()?;
        Some(format!("{} before {}: {why}", hosts::brief(names), hosts::brief(others)))
    }

    /// The order for programs: nodes of one cost together, and what the first ones have over the next.
    pub(crate) fn json(&self) -> Value {
        let names: Vec<&Vec<String>> = self.0.iter().map(|(_, names)| names).collect();
        json!({ "nodes": names, "why": self.first().map(|(.., why)| why) })
    }

    /// The nodes that come first, the next ones, and why.
    fn first(&self) -> Option<(&[String], &[String], String)> {
        let [(first, names), (second, others), ..] = &self.0[..] else { return None };
        Some((names, others, first.advantage_over(second, &hosts::brief(others))?))
    }
}
