//! The scheduling weights of nodes, for the time of one test.

use crate::ffi::host::Host;
use crate::node_order::{Placed, weights};

/// Nodes with their scheduling weights before a test.
pub(super) struct Before(Vec<(Placed, u64)>);

/// Writes an order of nodes into their scheduling weights.
pub(super) fn write(host: &Host, order: &[Placed]) -> Before {
    let weight = |placed: &Placed| Some((*placed, host.node(placed.node)?.sched_weight()));
    let known: Vec<(Placed, u64)> = order.iter().filter_map(weight).collect();
    let now: Vec<(u64, u32)> = known.iter().map(|(placed, weight)| (*weight, placed.place)).collect();
    known.iter().zip(weights(&now)).for_each(|((placed, _), weight)| host.set_weight(placed.node, weight));
    Before(known)
}

/// Puts the weights back: they are slurmctld's.
pub(super) fn restore(host: &Host, before: &Before) {
    before.0.iter().for_each(|(placed, weight)| host.set_weight(placed.node, *weight));
}
