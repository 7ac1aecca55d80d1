//! Amounts that Slurm counts for a job.

use std::collections::BTreeMap;

use geometry::Model;
use node_state::{Ask, Node, Policy, slices};
use placement::decide;
use protocol::Grant;
use site_config::SiteConfig;
use site_limits::counted::Counted;

use super::Need;
use crate::slurm_nodes::Live;

/// The slices that Slurm counts for a grant on a node.
pub(crate) fn slices_of(grant: &Grant, node: &Node, policy: &Policy) -> u64 {
    let model = |gpu: geometry::GpuIndex| -> Option<&Model> {
        node.gpus.get(usize::from(gpu.0)).map(|gpu| gpu.model)
    };
    slices::slices_for_grant(grant, model, policy.tasks.unwrap_or_default())
}

/// The fewest slices that a request takes on one of these nodes, as they are or, if none has room, empty; 0 if none ever has.
pub(crate) fn slices_for(live: &Live, ask: &Ask, policy: &Policy, config: &SiteConfig) -> u64 {
    let on = |node: &Node| {
        let chosen = decide(node, &ask.on(node), policy).chosen;
        chosen.map(|grant| slices_of(&grant, node, policy))
    };
    let states: BTreeMap<usize, &_> = live.nodes.iter().map(|present| (present.state, present)).collect();
    let now = states.values().filter_map(|present| on(&present.node)).min();
    let empty = || {
        let specs = states.values().filter_map(|present| config.node(&present.name));
        specs.filter_map(|spec| on(&site_limits::node_of(spec))).min()
    };
    now.or_else(empty).unwrap_or(0)
}

/// Adds up the counts and slices on each of so many nodes.
pub(crate) fn need_on(nodes: u64, counted: Counted, slices: u64, minutes: Option<u64>) -> Need {
    let (gpus, shards) = match counted {
        Counted::Gpus(n) => (n, 0),
        Counted::Shards(n) => (0, n),
    };
    let all = |each: u64| each.saturating_mul(nodes);
    Need { gpus: all(gpus), shards: all(shards), slices: all(slices), nodes, minutes }
}
