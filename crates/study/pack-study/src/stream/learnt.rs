//! A candidate for Tessera's rank: placements that are lost count by who asks for them, and by how few are left.
//!
//! # Approach
//! As under Tessera, an instance goes where no node without jobs and no GPU without jobs is taken, if there is such a place.
//! Among these places, Tessera counts the placements of all profiles that can no longer be made. Here, a lost placement of a
//! profile weighs
//!
//! ```text
//! jobs seen that asked for it × its part of a GPU / (1 + placements of it that are left in the cluster)
//! ```
//!
//! So a profile that no job asks for weighs nothing, and the last places of one that is asked for weigh most. The least weight wins,
//! then an idle instance of the profile, fewer idle instances destroyed, the fullest GPU, the fullest node, the first.
//!
//! All other requests are ranked as under Tessera.

use std::collections::HashMap;

use geometry::{GpuIndex, Model, Profile, ProfileId, Slice};
use node_state::{Gpu, GpuState, Holder, Policy};
use protocol::{Grant, MigSpec};

use super::class::{Class, Want};
use super::node::NodeState;
use super::published::{held, starts};

/// A profile of a model that jobs ask for.
struct LearntKind {
    model: &'static Model,
    profile: &'static Profile,
    /// Jobs that asked for it.
    seen: f64,
}

/// Requests so far.
pub(crate) struct Learnt {
    kinds: Vec<LearntKind>,
    /// The kinds of each request: one for each model.
    of_ask: HashMap<usize, Vec<usize>>,
}

/// Cost of an instance at a place, least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PlaceCost {
    opens_node: bool,
    opens_gpu: bool,
    /// Millionths of the weight of all placements.
    lost: i64,
    creates: bool,
    destroyed: usize,
    free_units: u32,
    free_gpus: usize,
}

impl Learnt {
    pub(crate) fn new() -> Self {
        Self { kinds: Vec::new(), of_ask: HashMap::new() }
    }

    /// Notes that a job of this class was submitted.
    pub(crate) fn saw(&mut self, nodes: &[NodeState], class: &Class, policy: &Policy) {
        if !self.of_ask.contains_key(&class.ask_at) {
            let kinds = self.kinds_of(nodes, class, policy);
            self.of_ask.insert(class.ask_at, kinds);
        }
        for kind in &self.of_ask[&class.ask_at] {
            self.kinds[*kind].seen += 1.0;
        }
    }

    fn kinds_of(&mut self, nodes: &[NodeState], class: &Class, policy: &Policy) -> Vec<usize> {
        let mut found: Vec<usize> = Vec::new();
        for node in nodes {
            let (Some(gpu), Want::Instance(profile)) = (node.node.gpus.first(), node.want(class, policy))
            else {
                continue;
            };
            let is = |kind: &LearntKind| kind.model.key == gpu.model.key && kind.profile.id == profile.id;
            let at = self.kinds.iter().position(is).unwrap_or_else(|| {
                self.kinds.push(LearntKind { model: gpu.model, profile, seen: 0.0 });
                self.kinds.len() - 1
            });
            if !found.contains(&at) {
                found.push(at);
            }
        }
        found
    }

    /// Chooses node and place of an instance; `None` if there is none.
    pub(crate) fn place(
        &self,
        nodes: &[NodeState],
        class: &Class,
        policy: &Policy,
        without: &[usize],
    ) -> Option<(usize, Grant)> {
        let weights = self.weights(nodes);
        let mut best: Option<(PlaceCost, usize, MigSpec)> = None;
        for (at, node) in nodes.iter().enumerate() {
            if without.contains(&at) || !node.has_cores(class) {
                continue;
            }
            let Want::Instance(profile) = node.want(class, policy) else { continue };
            let free_gpus = node.node.gpus.len() - node.busy();
            for (index, gpu) in (0..).map(GpuIndex).zip(&node.node.gpus) {
                for start in starts(gpu, profile) {
                    let cost = PlaceCost {
                        opens_node: free_gpus == node.node.gpus.len(),
                        free_gpus,
                        ..self.cost(gpu, profile, start, &weights)
                    };
                    if best.as_ref().is_none_or(|(other, ..)| cost < *other) {
                        best = Some((cost, at, MigSpec { gpu: index, profile: profile.id, start }));
                    }
                }
            }
        }
        best.map(|(_, at, spec)| (at, Grant::Mig(vec![spec])))
    }

    /// Weighs a lost placement of each kind, so that the weights of all kinds are a million together.
    fn weights(&self, nodes: &[NodeState]) -> Vec<f64> {
        let gpus = || nodes.iter().flat_map(|node| &node.node.gpus);
        let weight = |kind: &LearntKind| {
            let here = gpus().filter(|gpu| gpu.model.key == kind.model.key);
            let left: f64 = here.map(|gpu| kind.left(held(gpu))).sum();
            kind.seen * f64::from(kind.profile.size) / f64::from(kind.model.placement_units) / (1.0 + left)
        };
        let weights: Vec<f64> = self.kinds.iter().map(weight).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| 1e6 * weight / sum.max(f64::MIN_POSITIVE)).collect()
    }

    fn cost(&self, gpu: &Gpu, profile: &Profile, start: Slice, weights: &[f64]) -> PlaceCost {
        let (before, mask) = (held(gpu), profile.at(start).mask());
        let after = before | mask;
        let here = self.kinds.iter().zip(weights).filter(|(kind, _)| kind.model.key == gpu.model.key);
        let lost: f64 = here.map(|(kind, weight)| weight * (kind.left(before) - kind.left(after))).sum();
        let (creates, destroyed) = changes(gpu, profile.id, start, mask);
        #[expect(clippy::cast_possible_truncation, reason = "a million times the placements of one GPU")]
        let lost = lost.round() as i64;
        PlaceCost {
            opens_node: false,
            opens_gpu: before == 0,
            lost,
            creates,
            destroyed,
            free_units: (!after).count_ones(),
            free_gpus: 0,
        }
    }
}

impl LearntKind {
    /// Counts the placements that can be made next to the units in the bit mask.
    fn left(&self, held: u16) -> f64 {
        let free = self.profile.starts.iter().filter(|start| self.profile.at(**start).mask() & held == 0);
        free.map(|_| 1.0).sum()
    }
}

/// Tells whether an instance must be made, and how many idle ones must go for it.
fn changes(gpu: &Gpu, profile: ProfileId, start: Slice, mask: u16) -> (bool, usize) {
    let GpuState::Mig(all) = &gpu.state else { return (true, 0) };
    let idle = || all.iter().filter(|instance| instance.holder == Holder::Idle);
    if idle().any(|i| i.profile == profile && i.start == start) {
        return (false, 0);
    }
    let in_the_way =
        |i: &&node_state::Instance| gpu.profile_of(i).is_some_and(|p| p.at(i.start).mask() & mask != 0);
    (true, idle().filter(in_the_way).count())
}
