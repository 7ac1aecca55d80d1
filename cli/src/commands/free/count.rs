//! How many jobs of a shape could start now.

use std::collections::HashMap;

use admission::{Ruling, Submission};
use geometry::{JobId, Uid};
use mapa::Memo;
use node_state::{Ask, Node, Policy, Spread};
use placement::decide_with;
use protocol::Request;
use protocol::wire::encode_request;
use site_config::SiteConfig;

use super::shapes::Shape;
use crate::slurm_nodes::Present;

/// A shape and the jobs of it that could start.
pub(crate) struct Free {
    pub(crate) shape: Shape,
    /// Jobs by node, for nodes with at least one; or why such a job is refused.
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
    let mut known: HashMap<usize, u32> = HashMap::new();
    let mut free = Vec::new();
    for present in nodes {
        let n = *known.entry(present.alike).or_insert_with(|| {
            let n = on_node(&present.node, &request, policy, uid, memo);
            // Such a job gets a whole node.
            if who.exclusive { n.min(present.idle.into()) } else { n }
        });
        if n > 0 {
            free.push((present.name.clone(), n));
        }
    }
    Free { shape, nodes: Ok(free) }
}

fn on_node(node: &Node, request: &Request, policy: &Policy, uid: Uid, memo: &mut Memo) -> u32 {
    let mut node = node.clone();
    // Real jobs have numbers from 1: these count down from the largest.
    for n in 0_u32.. {
        let job = JobId(u32::MAX - n);
        // As the controller asks: Slurm 22.05 gives all of a job's shards on a node from one GPU.
        let ask = Ask { spread: Spread::ALIKE, ..Ask::new(job, uid, request.clone()) };
        let Some(grant) = decide_with(&node, &ask, policy, memo).chosen else { return n };
        if node.apply(job, uid, &grant).is_err() {
            return n;
        }
    }
    0
}
