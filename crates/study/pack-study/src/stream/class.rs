//! Jobs that ask the same, so that a node is asked once for all of them.

use std::collections::HashMap;

use geometry::{JobId, Model, Profile, Uid};
use node_state::{Ask, Node, Policy, Spread};
use placement::decide;
use protocol::wire::encode_request;
use protocol::{Grant, Isolation};

use super::site::StreamJob;

/// What the jobs of a class ask of each node.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) ask: Ask,
    pub(crate) cpus: u32,
    pub(crate) mem_mib: u64,
    pub(crate) nodes: usize,
}

/// A request as a published rule sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Want {
    /// One instance of this profile.
    Instance(&'static Profile),
    /// So many whole GPUs.
    Whole(usize),
    /// None of the papers knows such requests: the first node, as the kernel places them there.
    Other,
}

impl Class {
    /// Sorts the jobs into classes: the classes, and the class of each job.
    pub(crate) fn of(jobs: &[StreamJob]) -> (Vec<Self>, Vec<usize>) {
        let (mut classes, mut known) = (Vec::new(), HashMap::new());
        let of = jobs.iter().map(|job| {
            let key = (encode_request(&job.request), job.plain, job.cpus, job.mem_mib, job.nodes);
            *known.entry(key).or_insert_with(|| {
                let ask = Ask {
                    spread: Spread::ALIKE,
                    plain: job.plain,
                    ..Ask::new(JobId(0), Uid(1000), job.request.clone())
                };
                classes.push(Self { ask, cpus: job.cpus, mem_mib: job.mem_mib, nodes: job.nodes });
                classes.len() - 1
            })
        });
        let of = of.collect();
        (classes, of)
    }

    /// Reads what is wanted of a node: a request that names no profile gets the one that the kernel would choose on the empty
    /// node.
    pub(crate) fn want(&self, node: &Node, policy: &Policy) -> Want {
        let request = &self.ask.request;
        let Some(first) = node.gpus.first() else { return Want::Other };
        let named: &'static Model = first.model;
        match &request.isolation {
            Isolation::Whole => return Want::Whole(count(request.gpus.unwrap_or(1))),
            Isolation::Mig(Some(name)) if request.instances == 1 => {
                if let Some(profile) = named.profile(name) {
                    return Want::Instance(profile);
                }
            }
            _ => {}
        }
        match decide(&node.emptied(), &self.ask, policy).chosen {
            Some(Grant::Whole(gpus)) => Want::Whole(gpus.len()),
            Some(Grant::Mig(specs)) if specs.len() == 1 => {
                named.profile_by_id(specs[0].profile).map_or(Want::Other, Want::Instance)
            }
            _ => Want::Other,
        }
    }
}

fn count(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
