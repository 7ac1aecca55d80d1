//! The order of nodes that Slurm is asked to keep to, written as scheduling weights.
//!
//! Slurm takes nodes by `sched_weight`, least first, and among equals by its own rule. The weight has the site's `Weight` and
//! what slurmctld thinks of reboots and power in its upper bits, and belongs to cons_tres in its lowest byte. So the order goes
//! between: nodes of different upper bits stay in their order, whatever they cost.

use std::collections::BTreeMap;

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

/// Costs of the candidates of one test. They are kept until its end: if the job starts, it is told why it is on its node.
#[derive(Debug, Default)]
pub(crate) struct Costs {
    /// Each node by Slurm's index, with the place of its cost in `ranks`.
    of: Vec<Placed>,
    /// Each cost once, least first.
    ranks: Vec<CostNow>,
    /// Names of the first nodes that have the least cost, and the next.
    first: Vec<String>,
    /// Nothing was compared, because the job counts GPUs for all of its nodes together.
    by_slurm: bool,
}

impl Costs {
    /// Takes each node's index, name and cost.
    pub(crate) fn of<'a>(nodes: impl Iterator<Item = (usize, &'a str, CostNow)>) -> Self {
        let (mut of, mut seen) = (Vec::new(), BTreeMap::new());
        for (node, name, cost) in nodes {
            let next = u32::try_from(seen.len()).unwrap_or(u32::MAX);
            let (place, _) = *seen.entry(cost).or_insert((next, name));
            of.push(Placed { node, place });
        }
        // Costs have been numbered as they were met; a place is the number of lesser ones.
        let mut ranks = vec![0; seen.len()];
        seen.values().zip(0..).for_each(|((met, _), rank)| ranks[*met as usize] = rank);
        of.iter_mut().for_each(|placed| placed.place = ranks[placed.place as usize]);
        let first = seen.values().take(2).map(|(_, name)| (*name).to_owned()).collect();
        Self { of, ranks: seen.into_keys().collect(), first, by_slurm: false }
    }

    /// Gives no costs for a job that may get several nodes, because it counts GPUs for all of them together.
    pub(crate) fn by_slurm() -> Self {
        Self { by_slurm: true, ..Self::default() }
    }

    /// Puts the nodes in the order of their costs; empty if all cost the same.
    pub(crate) fn places(&self) -> Vec<Placed> {
        if self.ranks.len() < 2 { Vec::new() } else { self.of.clone() }
    }

    /// Says why the job is on the node that Slurm took: what it has over the next one, or that Slurm preferred it to a cheaper one.
    /// `None` if nothing is known of it or all cost the same.
    pub(crate) fn why_taken(&self, node: usize) -> Option<String> {
        if self.by_slurm {
            return Some("Slurm chose it without regard to links, because the job may get several nodes; -N1 changes that".to_owned());
        }
        let rank = self.of.iter().find(|placed| placed.node == node)?.place;
        match (self.ranks.get(rank as usize)?, rank) {
            (CostNow::Costs(own), 0) => match (self.ranks.get(1)?, self.first.get(1)?) {
                (CostNow::Costs(next), name) => own.advantage_over(next, name),
                _ => None,
            },
            (CostNow::Costs(_), _) => {
                let first = self.first.first()?;
                Some(format!(
                    "Slurm chose it by cores, memory, features, types of GPU or weight; by its free GPUs {first} comes first"
                ))
            }
            _ => None,
        }
    }
}

/// Returns the scheduling weights that put nodes of these weights and places in order: by the site's part first, then by
/// place. The lowest byte stays.
pub(crate) fn weights(now: &[(u64, u32)]) -> Vec<u64> {
    let mut uppers: Vec<u64> = now.iter().map(|(weight, _)| weight >> OWN_BITS).collect();
    uppers.sort_unstable();
    uppers.dedup();
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

    fn costs(all: &[(usize, CostNow)]) -> Costs {
        let names: Vec<String> = all.iter().map(|(node, _)| format!("n{node}")).collect();
        Costs::of(all.iter().zip(&names).map(|((node, cost), name)| (*node, name.as_str(), *cost)))
    }

    #[test]
    fn the_taken_node_has_a_reason() {
        let all = [(1, cost(8)), (2, cost(2)), (3, cost(2)), (4, CostNow::Unknown), (5, cost(9))];
        let all = costs(&all);
        let why = |node| all.why_taken(node).unwrap_or_default();
        for first in [2, 3] {
            assert_eq!(why(first), "fewer GPUs are free; those of n1 stay together");
        }
        for later in [1, 5] {
            assert_eq!(
                why(later),
                "Slurm chose it by cores, memory, features, types of GPU or weight; by its free GPUs n2 comes first"
            );
        }
        assert_eq!([why(4), why(7)], ["", ""], "nothing is known of these");
        let alike = costs(&[(1, cost(8)), (2, cost(8)), (3, CostNow::Unknown)]);
        assert_eq!(alike.why_taken(1), None);
    }

    fn cost(free: u32) -> CostNow {
        CostNow::Costs(NodeCost { free, ..NodeCost::default() })
    }

    #[test]
    fn nodes_that_only_slurm_uses_come_first_and_unknown_ones_last() {
        let order = costs(&[
            (4, CostNow::Unknown),
            (1, cost(8)),
            (7, cost(2)),
            (2, CostNow::SlurmsOwn),
            (3, cost(2)),
        ])
        .places();
        let places: Vec<(usize, u32)> = order.iter().map(|p| (p.node, p.place)).collect();
        assert_eq!(places, [(4, 3), (1, 2), (7, 1), (2, 0), (3, 1)]);
        assert_eq!(costs(&[(1, cost(3)), (2, cost(3))]).places(), []);
        assert_eq!(costs(&[]).places(), []);
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
