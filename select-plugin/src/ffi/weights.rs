//! The scheduling weights of nodes, for the time of one test.

use super::host::Host;
use crate::node_order::{Placed, weights};

/// Scheduling weights before a test, by Slurm's index of the node.
pub(super) struct Before(Vec<(usize, u64)>);

/// Writes an order of nodes into their scheduling weights.
pub(super) fn write(host: &Host, order: &[Placed]) -> Before {
    let weight = |placed: &Placed| Some((*placed, host.node(placed.node)?.sched_weight));
    let known: Vec<(Placed, u64)> = order.iter().filter_map(weight).collect();
    let now: Vec<(u64, u32)> = known.iter().map(|(placed, weight)| (*weight, placed.place)).collect();
    for ((placed, _), weight) in known.iter().zip(weights(&now)) {
        host.set_weight(placed.node, weight);
    }
    Before(known.iter().map(|(placed, weight)| (placed.node, *weight)).collect())
}

/// Puts the weights back: they are slurmctld's.
pub(super) fn restore(host: &Host, before: &Before) {
    before.0.iter().for_each(|(node, weight)| host.set_weight(*node, *weight));
}
