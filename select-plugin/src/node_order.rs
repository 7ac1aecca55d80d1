//! The order of nodes that Slurm is asked to keep to, written as scheduling weights.
//!
//! Slurm takes nodes by `sched_weight`, least first, and among equals by its own rule. The weight has the site's `Weight` and
//! what slurmctld thinks of reboots and power in its upper bits, and belongs to cons_tres in its lowest byte. So the order goes
//! between: nodes of different upper bits stay in their order, whatever they cost.

use std::collections::BTreeSet;

use crate::engine::CostNow;

/// Bits that cons_tres writes itself.
const OWN_BITS: u32 = 8;

/// A node's place in the order, least first. Nodes of one place are Slurm's to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Slurm's index of the node.
    pub(crate) node: usize,
    pub(crate) place: u32,
}

/// Puts nodes in the order of their costs; empty if all cost the same.
pub(crate) fn by_cost(costs: &[(usize, CostNow)]) -> Vec<Placed> {
    let distinct: Vec<CostNow> =
        costs.iter().map(|(_, cost)| *cost).collect::<BTreeSet<_>>().into_iter().collect();
    if distinct.len() < 2 {
        return Vec::new();
    }
    let place = |cost: &CostNow| distinct.partition_point(|other| other < cost);
    let placed = |(node, cost): &(usize, CostNow)| Placed {
        node: *node,
        place: u32::try_from(place(cost)).unwrap_or(u32::MAX),
    };
    costs.iter().map(placed).collect()
}

/// Returns the scheduling weights that put nodes of these weights and places in order: by the site's part first, then by
/// place. The lowest byte stays.
pub(crate) fn weights(now: &[(u64, u32)]) -> Vec<u64> {
    let uppers: Vec<u64> =
        now.iter().map(|(weight, _)| weight >> OWN_BITS).collect::<BTreeSet<_>>().into_iter().collect();
    let places = now.iter().map(|(_, place)| u64::from(*place)).max().unwrap_or(0) + 1;
    let of = |(weight, place): &(u64, u32)| {
        let upper = uppers.partition_point(|other| *other < weight >> OWN_BITS) as u64;
        (upper * places + u64::from(*place)) << OWN_BITS | weight & ((1 << OWN_BITS) - 1)
    };
    now.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use placement::NodeCost;
    use proptest::prelude::*;

    use super::*;

    fn cost(free: u32) -> CostNow {
        CostNow::Costs(NodeCost { free, ..NodeCost::default() })
    }

    #[test]
    fn nodes_that_only_slurm_uses_come_first_and_unknown_ones_last() {
        let order = by_cost(&[
            (4, CostNow::Unknown),
            (1, cost(8)),
            (7, cost(2)),
            (2, CostNow::SlurmsOwn),
            (3, cost(2)),
        ]);
        let places: Vec<(usize, u32)> = order.iter().map(|p| (p.node, p.place)).collect();
        assert_eq!(places, [(4, 3), (1, 2), (7, 1), (2, 0), (3, 1)]);
        assert_eq!(by_cost(&[(1, cost(3)), (2, cost(3))]), []);
        assert_eq!(by_cost(&[]), []);
    }

    #[test]
    fn a_sites_weight_comes_before_any_place() {
        // Weights 1 and 10, one node that must be booted first, and cons_tres's own byte.
        let now = [(0x1ff, 5), (0xaff, 0), (0x200_0000_01ff, 0), (0x1fe, 2)];
        let after = weights(&now);
        let mut order: Vec<usize> = (0..now.len()).collect();
        order.sort_by_key(|i| after[*i]);
        assert_eq!(order, [3, 0, 1, 2]);
        assert!(now.iter().zip(&after).all(|((before, _), after)| before & 0xff == after & 0xff));
    }

    proptest! {
        /// By the site's part, then by place, for any weights.
        #[test]
        fn the_order_is_that_of_pairs(now in prop::collection::vec((any::<u64>(), 0..500_u32), 0..40)) {
            let after = weights(&now);
            for (i, (left, left_place)) in now.iter().enumerate() {
                for (j, (right, right_place)) in now.iter().enumerate() {
                    let wanted = (left >> 8, left_place).cmp(&(right >> 8, right_place));
                    prop_assert_eq!((after[i] >> 8).cmp(&(after[j] >> 8)), wanted);
                }
            }
        }
    }
}
