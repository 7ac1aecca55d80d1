//! Jobs that ask the same, so that a node is asked once for all of them.

use std::collections::HashMap;

use geometry::{JobId, Profile, Uid};
use node_state::{Ask, Node, Policy, Spread};
use placement::decide;
use protocol::wire::encode_request;
use protocol::{Grant, Isolation};

use super::site::StreamJob;

/// Wish of a class of jobs on each node.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) ask: Ask,
    /// Number of the request: classes that differ only in cores, memory and nodes have the same.
    pub(crate) ask_at: usize,
    pub(crate) cpus: u32,
    pub(crate) mem_mib: u64,
    pub(crate) nodes: usize,
}

/// A request as a published rule sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Want {
    /// An instance of this profile.
    Instance(&'static Profile),
    /// So many whole GPUs.
    Whole(usize),
    /// None of the papers knows such requests: the first node, as the kernel places them there.
    Other,
}

impl Class {
    /// Sorts the jobs into classes: the classes, and the class of each job.
    pub(crate) fn of(jobs: &[StreamJob]) -> (Vec<Self>, Vec<usize>) {
        let (mut classes, mut known, mut asks) = (Vec::new(), HashMap::new(), HashMap::new());
        let of = jobs.iter().map(|job| {
            let next = asks.len();
            let ask_at = *asks.entry((encode_request(&job.request), job.plain)).or_insert(next);
            *known.entry((ask_at, job.cpus, job.mem_mib, job.nodes)).or_insert_with(|| {
                let ask = Ask {
                    spread: Spread::ALIKE,
                    plain: job.plain,
                    ..Ask::new(JobId(0), Uid(1000), job.request.clone())
                };
                classes.push(Self { ask, ask_at, cpus: job.cpus, mem_mib: job.mem_mib, nodes: job.nodes });
                classes.len() - 1
            })
        });
        let of = of.collect();
        (classes, of)
    }

    /// Reads what a request that names a profile or whole GPUs wants of a node.
    pub(crate) fn named(&self, node: &Node) -> Option<Want> {
        let request = &self.ask.request;
        match &request.isolation {
            Isolation::Whole => Some(Want::Whole(count(request.gpus.unwrap_or(1)))),
            Isolation::Mig(Some(name)) if request.instances == 1 => {
                node.gpus.first()?.model.profile(name).map(Want::Instance)
            }
            _ => None,
        }
    }

    /// Reads what is wanted of a node: a request that names no profile gets the one that the kernel would choose on the empty
    /// node.
    pub(crate) fn want(&self, node: &Node, policy: &Policy) -> Want {
        if let Some(want) = self.named(node) {
            return want;
        }
        let Some(model) = node.gpus.first().map(|gpu| gpu.model) else { return Want::Other };
        match decide(&node.emptied(), &self.ask, policy).chosen {
            Some(Grant::Whole(gpus)) => Want::Whole(gpus.len()),
            Some(Grant::Mig(specs)) if specs.len() == 1 => {
                model.profile_by_id(specs[0].profile).map_or(Want::Other, Want::Instance)
            }
            _ => Want::Other,
        }
    }
}

fn count(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
