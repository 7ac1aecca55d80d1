//! A second opinion: checks decisions and node states without any code of the placement crate.
//!
//! It is meant to be slow, plain and obviously right. Occupancy is a list of units, scores are counted again from
//! scratch, and every alternative that is cheap to enumerate is weighed again. It runs in tests and in debug builds.

#![forbid(unsafe_code)]

mod alternatives;
mod budget;
mod compute_rules;
mod compute_slices;
mod every_grant;
mod every_place;
mod fence;
mod finding;
mod groups;
mod kinds;
mod legal;
mod node_order;
mod node_price;
mod places;
mod price;
mod sets;
mod share_rules;
mod state;
mod task_devices;
mod task_reach;
mod task_rules;
mod whole_rules;

pub use alternatives::shares;
pub use budget::{CappedJob, PoweredNode, audit_cap, watts_in};
pub use compute_rules::every_compute;
pub use every_grant::every_grant;
pub use every_place::every_place;
pub use fence::{CountedJob, audit_fence, left_limits};
pub use finding::Finding;
pub use groups::{Grouped, audit_groups};
pub use legal::legal;
pub use node_order::{audit_node_order, least_price, offer_price};
pub use node_price::{NodePrice, node_price};
pub use price::{Price, price};
pub use state::audit_node;
pub use task_reach::audit_shards;
pub use task_rules::seats;

use alternatives::alternatives;
use decision_report::Decision;
use finding::finding;
use kinds::kind_of;
use node_state::{Ask, Kind, Node, Policy, Spread};
use protocol::{Grant, TaskDevices, TaskGrant};

/// Drops grants of instances on more GPUs than others need, if a job's instances are to lie on as few GPUs as possible.
pub fn keep_fewest_gpus(ask: &Ask, grants: &mut Vec<Grant>) {
    let gpus = |grant: &Grant| if let Grant::Mig(_) = grant { grant.gpus().len() } else { 0 };
    if matches!(ask.spread, Spread::Alike { .. }) {
        let fewest = grants.iter().map(gpus).filter(|n| *n > 0).min().unwrap_or(0);
        grants.retain(|grant| gpus(grant) <= fewest);
    }
}

/// Checks a decision. Empty: no objection.
///
/// What was chosen must be legal, and no alternative that is cheap to enumerate may be better: every single instance,
/// every device for a share, every order of every small set of whole GPUs. If nothing was chosen, none of them may be
/// legal. What the report says about a set of whole GPUs is counted again.
#[must_use]
pub fn audit(node: &Node, ask: &Ask, policy: &Policy, decision: &Decision) -> Vec<Finding> {
    let Some(chosen) = &decision.chosen else {
        let possible = alternatives(node, ask, policy, None);
        let possible = possible.iter().find(|g| legal(node, ask, policy, g).is_empty());
        return possible
            .map(|g| finding(None, format!("nothing chosen, but {g:?} is legal")))
            .into_iter()
            .collect();
    };
    let mut findings = legal(node, ask, policy, chosen);
    if !findings.is_empty() {
        return findings;
    }
    match chosen {
        Grant::Whole(order) => findings.extend(sets::check(node, ask, policy, decision, order)),
        Grant::Tasks(TaskGrant { on: TaskDevices::Own { gpus, .. }, .. }) => {
            let whole = task_rules::as_whole(node, ask, policy);
            findings.extend(sets::check(node, &whole, policy, decision, gpus));
        }
        _ => {}
    }
    let paid = price(node, policy, chosen);
    let mut others = alternatives(node, ask, policy, Some(chosen));
    // A planned place that is possible comes before every other.
    let planned = legal::as_planned(node, ask, policy);
    let planned = planned.into_iter().find(|g| legal(node, ask, policy, g).is_empty());
    if let (Some(planned), Grant::Mig(_) | Grant::Compute { .. }) = (planned, chosen) {
        // Which of the compute instances there is for the price to say.
        let there = matches!(chosen, Grant::Compute { .. }) && planned.instances() == chosen.instances();
        if there {
            others.retain(|g| g.instances() == planned.instances());
        } else if planned != *chosen {
            findings.push(finding(None, format!("{planned:?} is planned and legal, not {chosen:?}")));
        }
        others.retain(|g| there || kind_of(g) != Kind::Mig);
    }
    let mut possible: Vec<Grant> = others
        .into_iter()
        .filter(|g| legal(node, ask, policy, g).is_empty())
        .chain([chosen.clone()])
        .collect();
    keep_fewest_gpus(ask, &mut possible);
    if !possible.contains(chosen) {
        findings.push(finding(None, format!("{chosen:?} is on more GPUs than need be")));
    }
    let mut best: Vec<(Price, Grant)> = Vec::new();
    for (price, grant) in possible.into_iter().map(|g| (price(node, policy, &g), g)) {
        match best.iter_mut().find(|(known, _)| known.kind == price.kind) {
            Some(known) if price.beats_same_kind(&known.0) => *known = (price, grant),
            Some(_) => {}
            None => best.push((price, grant)),
        }
    }
    for (price, other) in best {
        let same = price.kind == paid.kind;
        if (same && price.beats_same_kind(&paid)) || (!same && price.beats_other_kind(&paid)) {
            findings.push(finding(None, format!("{other:?} is better than {chosen:?}")));
        }
    }
    findings
}
