//! The order of the nodes of small clusters, against an oracle that weighs every legal grant on every node.

use crate::common::*;
use audit::{audit_node_order, least_price, node_price, offer_price};
use geometry::JobId;
use node_layout::layout_of;
use node_state::*;
use placement::*;
use proptest::prelude::*;
use protocol::*;
use topology::{BandwidthModel, Selection};

/// What a node is chosen by, as the select plugin asks it; with the grant.
fn cost(node: &Node, ask: &Ask, policy: &Policy, fill: Fill) -> Option<(NodeCost, Grant)> {
    let decision = decide(node, ask, policy);
    Some((rank(node, &decision)?.under(fill), decision.chosen?))
}

/// A cluster, a request to it, and the policy under which jobs came to its nodes.
#[derive(Debug)]
struct Case {
    nodes: Vec<Node>,
    ask: Ask,
    policy: Policy,
}

/// Two to four nodes in which jobs have lived, some of them with the very request, so that there is something to join.
fn cases(
    node: impl Strategy<Value = Node>,
    asks: impl Strategy<Value = Ask>,
    policies: impl Strategy<Value = Policy>,
) -> impl Strategy<Value = Case> {
    let nodes = prop::collection::vec((node, events(5), 0..4_u32), 2..=4);
    (nodes, asks, policies).prop_map(|(lives, ask, policy)| {
        let live = |(mut node, events, like_it): (Node, Vec<Event>, u32)| {
            live(&mut node, &policy, &events);
            for job in 100..100 + like_it {
                let _ = run(&mut node, &Ask { job: JobId(job), ..ask.clone() }, &policy);
            }
            node
        };
        let nodes = lives.into_iter().map(live).collect();
        Case { nodes, ask: Ask { job: JobId(5000), ..ask }, policy }
    })
}

/// Requests of every kind, and for sets of up to three GPUs.
fn requests() -> impl Strategy<Value = Ask> {
    let sets = whole_asks().prop_map(|mut ask| {
        ask.request.gpus = ask.request.gpus.map(|n| n.min(3));
        ask.request.policy = None;
        ask.quotas.clear();
        ask
    });
    prop_oneof![3 => asks(2), 1 => sets]
}

/// Requests for instances of one profile, and for whole GPUs.
fn exact_requests() -> impl Strategy<Value = Ask> {
    let profiles = vec!["1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"];
    (requests(), prop::sample::select(profiles)).prop_map(|(mut ask, profile)| {
        if ask.request.isolation != Isolation::Whole {
            let isolation = Isolation::parse(&format!("mig:{profile}")).unwrap();
            ask.request = Request { instances: ask.request.instances, ..Request::new(isolation) };
        }
        ask
    })
}

/// Policies of sites, of which the oracle knows how they choose sets.
fn policies() -> impl Strategy<Value = Policy> {
    site_policies().prop_map(|mut policy| {
        (policy.sets.selection, policy.sets.model) = (Selection::Preserve, BandwidthModel::default());
        policy
    })
}

fn fills() -> impl Strategy<Value = Fill> {
    prop_oneof![3 => Just(Fill::Pack), 1 => Just(Fill::Spread)]
}

/// The nodes' states in one line each, as `sinfo` shows them.
fn shown(nodes: &[Node]) -> String {
    let lines = nodes.iter().map(|node| format!("\n{}", layout_of(node)));
    lines.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// No node offers the job something that costs the others less than what it gets; and any two nodes are in the oracle's order.
    #[test]
    fn no_node_offers_something_cheaper(
        case in cases(prop_oneof![3 => empty_nodes(3), 1 => ruled_nodes(3)], requests(), policies()),
        fill in fills(),
    ) {
        let Case { nodes, ask, policy } = &case;
        let costs: Vec<_> = nodes.iter().map(|node| cost(node, ask, policy, fill)).collect();
        let first = costs.iter().enumerate().filter_map(|(i, cost)| Some((cost.as_ref()?.0, i))).min();
        let chosen = first.and_then(|(_, i)| Some((i, &costs[i].as_ref()?.1)));
        prop_assert_eq!(audit_node_order(nodes, ask, policy, fill, chosen), [], "{}", shown(nodes));
        let prices: Vec<_> = nodes.iter().map(|node| offer_price(node, ask, policy, fill)).collect();
        for (i, (left, own)) in costs.iter().zip(&prices).enumerate() {
            for (j, (right, other)) in costs.iter().zip(&prices).enumerate() {
                let (Some((left, _)), Some((right, _))) = (left, right) else { continue };
                let same = left.cmp(right) == own.cmp(other);
                prop_assert!(same, "{}: {:?}, {}: {:?}{}", i, own, j, other, shown(nodes));
            }
        }
    }

    /// For a named profile and for whole GPUs, the rule inside nodes takes what costs the others least as well: there is no cheaper
    /// legal choice in the whole cluster. For a memory size it prefers fewer SMs, and for a share a device in use.
    #[test]
    fn no_legal_choice_of_the_cluster_is_cheaper(
        case in cases(
            (1..=3_usize, any::<bool>()).prop_map(|(n, on)| {
                node(&vec![A100; n], if on { MigPolicy::On } else { MigPolicy::Dynamic })
            }),
            exact_requests(),
            Just(Policy::default()),
        ),
        fill in fills(),
    ) {
        let Case { nodes, ask, policy } = &case;
        let costs = nodes.iter().enumerate().filter_map(|(i, node)| Some((cost(node, ask, policy, fill)?, i)));
        let first = costs.min_by_key(|((cost, _), i)| (*cost, *i));
        let paid = first.and_then(|((_, grant), i)| node_price(&nodes[i], ask, policy, &grant, fill));
        prop_assert_eq!(paid, least_price(nodes, ask, policy, fill), "{}", shown(nodes));
    }
}
