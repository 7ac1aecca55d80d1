//! Whether a node could ever satisfy a request, and what the request counts for in Slurm.

use crate::decide::decide;
use crate::never::{Never, never};
use geometry::size::shards;
use geometry::{JobId, Uid};
use node_state::{Ask, Kind, Node, Policy, Purpose};
use protocol::{Grant, Isolation, Request, ShareOn};

/// What Slurm counts for a request, per node. It is a relaxed bound: the placement engine may still refuse a node on
/// which Slurm counts enough as free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// `gres/shard`, nominal gigabytes: the fewest that the request counts for on any GPU of the node.
    Shards(u32),
    /// `gres/gpu`, whole GPUs.
    Gpus(u32),
}

/// Whether `node` could satisfy the request if no job were on it, and what Slurm counts for that. `same_gpu_only` is
/// as in [`Ask`].
///
/// # Errors
///
/// The node could not: why, and what it could give instead.
pub fn admits_ever(
    node: &Node,
    request: &Request,
    policy: &Policy,
    same_gpu_only: bool,
) -> Result<Admission, Never> {
    let node = node.emptied();
    let try_one = |request: &Request| {
        let ask = Ask { same_gpu_only, ..Ask::new(JobId(0), Uid(0), request.clone()) };
        decide(&node, &ask, policy)
    };
    let whole = request.gpus.unwrap_or(1);
    match request.isolation {
        Isolation::None => Ok(Admission::Gpus(whole)),
        Isolation::Auto => {
            let decision = try_one(request);
            if decision.chosen.is_none() {
                return Err(never(&node, request, same_gpu_only, &decision, &try_one));
            }
            let fits = |kind| decision.report.kinds.iter().any(|k| k.kind == kind && k.outcome.is_ok());
            let partial = [Kind::Mig, Kind::Mps].into_iter().filter(|k| fits(*k));
            let fewest = partial.filter_map(|kind| fewest_shards(&node, kind, request, policy)).min();
            Ok(fewest.map_or(Admission::Gpus(whole), Admission::Shards))
        }
        Isolation::Mig(_) | Isolation::Mps | Isolation::Whole => {
            let decision = try_one(request);
            let kind = match decision.chosen {
                None => return Err(never(&node, request, same_gpu_only, &decision, &try_one)),
                Some(Grant::Whole(_)) => return Ok(Admission::Gpus(whole)),
                Some(Grant::Mig(_)) => Kind::Mig,
                Some(Grant::Mps { .. }) => Kind::Mps,
            };
            let fewest = fewest_shards(&node, kind, request, policy);
            Ok(Admission::Shards(fewest.unwrap_or(1)))
        }
    }
}

/// The fewest shards that the request counts for on any of the node's GPUs, never more than the GPU has.
fn fewest_shards(node: &Node, kind: Kind, request: &Request, policy: &Policy) -> Option<u32> {
    let per_gpu = node.gpus.iter().enumerate().filter_map(|(i, gpu)| {
        let links = topology::LinkMatrix::uniform(1, 0.0);
        let alone = Node { gpus: vec![gpu.clone()], links, keep_uncut: 0 };
        let isolation = match (&request.isolation, kind) {
            (Isolation::Mig(profile), _) => Isolation::Mig(profile.clone()),
            (_, Kind::Mig) => Isolation::Mig(None),
            _ => Isolation::Mps,
        };
        // Nodes are mostly of one model: ask each model once.
        let alike = |g: &node_state::Gpu| {
            std::ptr::eq(g.model, gpu.model) && (g.policy, g.purpose) == (gpu.policy, gpu.purpose)
        };
        if gpu.purpose != Purpose::Static && node.gpus[..i].iter().any(alike) {
            return None;
        }
        let request = Request { isolation, instances: 1, ..request.clone() };
        match decide(&alone, &Ask::new(JobId(0), Uid(0), request), policy).chosen? {
            Grant::Mig(specs) => specs
                .first()
                .and_then(|s| gpu.model.profile_by_id(s.profile))
                .map(|p| gpu.model.profile_shards(p)),
            Grant::Mps { on: ShareOn::Gpu(_) | ShareOn::Instance(_), mem_mib, .. } => {
                Some(shards(mem_mib).min(gpu.model.shards()))
            }
            Grant::Whole(_) => None,
        }
    });
    per_gpu.min().map(|one| one.saturating_mul(request.instances.max(1)))
}
