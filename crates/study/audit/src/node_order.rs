//! Finds the node of a small cluster that a job should get, by weighing every legal grant on every node.
//!
//! A node offers the best of its legal grants by the rule inside nodes: the least [`price`]; of sets, which that rule takes by
//! their links, the fastest. The node whose offer has the least [`node_price`] comes first. Sets are those of the policy *preserve*
//! under the site's own bandwidth model.

use geometry::GpuIndex;
use node_state::{Ask, Fill, Node, Policy};
use protocol::{Grant, TaskDevices, TaskGrant};

use crate::every_grant::every_grant;
use crate::finding::{Finding, finding};
use crate::keep_fewest_gpus;
use crate::kinds::kind_of;
use crate::legal::legal;
use crate::node_price::{NodePrice, node_price, set_of};
use crate::price::{Price, price};
use crate::sets::every_order;

/// Returns every legal grant on the node, sets in every order.
fn legal_grants(node: &Node, ask: &Ask, policy: &Policy) -> Vec<Grant> {
    let mut grants = every_grant(node, ask, policy);
    grants.retain(|grant| legal(node, ask, policy, grant).is_empty());
    keep_fewest_gpus(ask, &mut grants);
    let mut all = Vec::new();
    for grant in grants {
        match set_of(&grant).map(<[GpuIndex]>::to_vec) {
            None => all.push(grant),
            Some(set) => every_order(&set, set.len(), &mut Vec::new(), &mut |order| {
                all.push(in_order(&grant, order));
            }),
        }
    }
    all
}

fn in_order(set: &Grant, order: &[GpuIndex]) -> Grant {
    match set {
        Grant::Tasks(TaskGrant { on: TaskDevices::Own { seats, .. }, mem_mib, probes }) => {
            let on = TaskDevices::Own { gpus: order.to_vec(), seats: *seats };
            Grant::Tasks(TaskGrant { on, mem_mib: *mem_mib, probes: *probes })
        }
        _ => Grant::Whole(order.to_vec()),
    }
}

/// A grant with its prices inside the node and to the cluster.
struct Offer {
    grant: Grant,
    inside: Price,
    costs: NodePrice,
}

impl Offer {
    /// Tells whether the rule inside nodes prefers it.
    fn beats(&self, other: &Self) -> bool {
        let kinds = (kind_of(&self.grant), kind_of(&other.grant));
        match kinds {
            (a, b) if a != b => self.inside.beats_other_kind(&other.inside),
            _ if set_of(&self.grant).is_some() => self.costs.slower < other.costs.slower,
            _ => self.inside.beats_same_kind(&other.inside),
        }
    }
}

/// Returns the cost of what the node offers to the request; `None` if nothing is legal there.
#[must_use]
pub fn offer_price(node: &Node, ask: &Ask, policy: &Policy, fill: Fill) -> Option<NodePrice> {
    let mut best: Vec<Offer> = Vec::new();
    for grant in legal_grants(node, ask, policy) {
        let Some(costs) = node_price(node, ask, policy, &grant, fill) else { continue };
        let offer = Offer { inside: price(node, policy, &grant), costs, grant };
        let of_kind = kind_of(&offer.grant);
        match best.iter_mut().find(|known| kind_of(&known.grant) == of_kind) {
            Some(known) if offer.beats(known) => *known = offer,
            Some(_) => {}
            None => best.push(offer),
        }
    }
    best.into_iter().reduce(|a, b| if b.beats(&a) { b } else { a }).map(|offer| offer.costs)
}

/// Returns the least cost of any legal grant on any of these nodes, whatever a rule inside nodes prefers.
#[must_use]
pub fn least_price(nodes: &[Node], ask: &Ask, policy: &Policy, fill: Fill) -> Option<NodePrice> {
    let on = |node: &Node| {
        let grants = legal_grants(node, ask, policy).into_iter();
        grants.filter_map(|grant| node_price(node, ask, policy, &grant, fill)).min()
    };
    nodes.iter().filter_map(on).min()
}

/// Checks that no node offers the request something cheaper than the grant on the node that was chosen. Empty: no objection.
#[must_use]
pub fn audit_node_order(
    nodes: &[Node],
    ask: &Ask,
    policy: &Policy,
    fill: Fill,
    chosen: Option<(usize, &Grant)>,
) -> Vec<Finding> {
    let offers =
        nodes.iter().enumerate().filter_map(|(i, node)| Some((offer_price(node, ask, policy, fill)?, i)));
    let Some((least, on)) = offers.min() else {
        return chosen
            .map(|_| finding(None, "something was chosen where nothing is legal"))
            .into_iter()
            .collect();
    };
    let Some((node, grant)) = chosen.and_then(|(i, grant)| Some((nodes.get(i)?, grant))) else {
        return vec![finding(None, format!("no node was chosen, but node {on} has room"))];
    };
    let mut findings = legal(node, ask, policy, grant);
    let own = node_price(node, ask, policy, grant, fill);
    if own != Some(least) {
        findings.push(finding(None, format!("{grant:?} costs {own:?}; node {on} offers {least:?}")));
    }
    findings
}
