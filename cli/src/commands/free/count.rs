//! How many jobs of a shape could start now.

use std::cmp::Reverse;
use std::collections::HashMap;

use admission::{Ruling, Submission};
use geometry::{JobId, Uid};
use mapa::Memo;
use node_state::{Ask, Node, Policy, Spread};
use placement::{NodeCost, decide_with};
use protocol::Request;
use protocol::wire::encode_request;
use site_config::SiteConfig;

use super::shapes::Shape;
use crate::slurm_nodes::Present;

/// A shape and the jobs of it that could start.
pub(crate) struct Free {
    pub(crate) shape: Shape,
    /// Jobs by node, for nodes with at least one, in the order in which Slurm takes them; or why such a job is refused.
    pub(crate) nodes: Result<Vec<(String, u32)>, String>,
}

impl Free {
    /// Jobs on all nodes together.
    pub(crate) fn total(&self) -> u32 {
        self.nodes.as_ref().map_or(0, |nodes| nodes.iter().map(|(_, n)| n).sum())
    }
}

/// The jobs of `shape` that user `uid` could start, one after another. `who` is the job with partition and account. Nodes that
/// are alike are answered once, and so are the sets of whole GPUs that `memo` has.
pub(super) fn count(
    shape: Shape,
    who: &Submission,
    nodes: &[Present],
    config: &SiteConfig,
    policy: &Policy,
    uid: Uid,
    memo: &mut Memo,
) -> Free {
    let job =
        Submission { request: Some(encode_request(&shape.request)), tres: shape.tres.clone(), ..who.clone() };
    let request = match admission::judge(&job, Some(config)) {
        Ruling::Accepted { request, .. } => request,
        Ruling::Untouched => shape.request.clone(),
        Ruling::Refused(why) => return Free { shape, nodes: Err(why.text) },
    };
    let fill = config.node_order(who.partitions.first().map(String::as_str)).filter(|_| !who.exclusive);
    let mut known: HashMap<usize, (u32, Option<NodeCost>)> = HashMap::new();
    let mut free = Vec::new();
    for present in nodes {
        let (n, cost) = *known.entry(present.alike).or_insert_with(|| {
            let (n, cost) = on_node(&present.node, &request, policy, uid, memo);
            // Such a job gets a whole node.
            (if who.exclusive { n.min(present.idle.into()) } else { n }, cost)
        });
        if n > 0 {
            free.push((cost.zip(fill).map(|(cost, fill)| cost.under(fill)), present.name.clone(), n));
        }
    }
    // Where Slurm's own order holds, the nodes with most come first.
    free.sort_by_key(|(cost, _, n)| (*cost, if cost.is_none() { Reverse(*n) } else { Reverse(0) }));
    Free { shape, nodes: Ok(free.into_iter().map(|(_, name, n)| (name, n)).collect()) }
}

/// The jobs that could start on a node, and what the first of them costs the others.
fn on_node(
    node: &Node,
    request: &Request,
    policy: &Policy,
    uid: Uid,
    memo: &mut Memo,
) -> (u32, Option<NodeCost>) {
    let (mut node, mut cost) = (node.clone(), None);
    // Real jobs have numbers from 1: these count down from the largest.
    for n in 0_u32.. {
        let job = JobId(u32::MAX - n);
        // As the controller asks: Slurm 22.05 gives all of a job's shards on a node from one GPU.
        let ask = Ask { spread: Spread::ALIKE, ..Ask::new(job, uid, request.clone()) };
        let decision = decide_with(&node, &ask, policy, memo);
        if n == 0 {
            cost = placement::rank(&node, &decision);
        }
        let Some(grant) = decision.chosen else { return (n, cost) };
        if node.apply(job, uid, &grant).is_err() {
            return (n, cost);
        }
    }
    (0, None)
}
