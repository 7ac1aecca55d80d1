//! Decides whether a node could ever satisfy a request, and what the request counts for in Slurm.

use crate::decide::decide;
use crate::never::{Never, never};
use geometry::size::shards;
use geometry::{JobId, Uid};
use node_state::{Ask, Kind, Node, Policy, Purpose, Spread};
use protocol::{Grant, Isolation, Request, ShareOn, TaskDevices};

/// Count that Slurm needs for a request, per node. It is a relaxed bound: the placement engine may still refuse a node on
/// which Slurm counts enough as free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// `gres/shard`, nominal gigabytes: the fewest that the request counts for on any GPU of the node.
    Shards(u32),
    /// `gres/gpu`, whole GPUs.
    Gpus(u32),
}

/// Tells whether `node` could satisfy the request if no job were on it, and what Slurm counts for that.
///
/// Slurm finds a job's shards on one GPU only. Several instances that need several GPUs therefore count as what one of the
/// GPUs carries of them.
///
/// # Errors
///
/// The node could not: why, and what it could give instead.
pub fn admits_ever(node: &Node, request: &Request, policy: &Policy) -> Result<Admission, Never> {
    let node = node.emptied();
    let try_one = |request: &Request| {
        let ask = Ask { spread: Spread::ALIKE, ..Ask::new(JobId(0), Uid(0), request.clone()) };
        decide(&node, &ask, policy)
    };
    let whole = request.gpus.unwrap_or(1);
    match request.isolation {
        Isolation::None => Ok(Admission::Gpus(whole)),
        Isolation::Auto => {
            let decision = try_one(request);
            if decision.chosen.is_none() {
                return Err(never(&node, request, &decision, &try_one));
            }
            let fits = |kind| decision.report.kinds.iter().any(|k| k.kind == kind && k.outcome.is_ok());
            let partial = [Kind::Mig, Kind::Mps, Kind::Tasks].into_iter().filter(|k| fits(*k));
            let each = each_gpu_carries(decision.chosen.as_ref(), request);
            let fewest = partial.filter_map(|kind| fewest_shards(&node, kind, request, policy)).min();
            Ok(fewest.map_or(Admission::Gpus(whole), |one| Admission::Shards(one.saturating_mul(each))))
        }
        Isolation::Mig(_) | Isolation::Mps | Isolation::Tasks { .. } | Isolation::Whole => {
            let decision = try_one(request);
            let each = each_gpu_carries(decision.chosen.as_ref(), request);
            let kind = match decision.chosen {
                None => return Err(never(&node, request, &decision, &try_one)),
                Some(Grant::Whole(_)) => return Ok(Admission::Gpus(whole)),
                Some(Grant::Mig(_) | Grant::Compute { .. }) => Kind::Mig,
                Some(Grant::Mps { .. }) => Kind::Mps,
                Some(Grant::Tasks(tasks)) => match tasks.on {
                    TaskDevices::Own { .. } => return Ok(Admission::Gpus(whole)),
                    TaskDevices::Pool(_) => Kind::Tasks,
                },
            };
            let fewest = fewest_shards(&node, kind, request, policy);
            Ok(Admission::Shards(fewest.map_or(1, |one| one.saturating_mul(each))))
        }
    }
}

/// Number of the request's instances that each GPU carries. For a grant of another kind, all: then one GPU does.
fn each_gpu_carries(grant: Option<&Grant>, request: &Request) -> u32 {
    let all = request.instances.max(1);
    match grant {
        Some(Grant::Mig(specs)) => specs.first().map_or(all, |first| {
            u32::try_from(specs.iter().filter(|s| s.gpu == first.gpu).count()).unwrap_or(all)
        }),
        _ => all,
    }
}

/// The shards of one instance or share: the fewest that it counts for on any of the node's GPUs, never more than the GPU has.
fn fewest_shards(node: &Node, kind: Kind, request: &Request, policy: &Policy) -> Option<u32> {
    if kind == Kind::Tasks {
        // One for each seat, whatever device it is on.
        return Some(request.seats);
    }
    let per_gpu = node.gpus.iter().enumerate().filter_map(|(i, gpu)| {
        let links = topology::HardwareGraph::uniform(1, 0.0);
        let alone = Node::new(vec![gpu.clone()], links);
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
            Grant::Compute { mem_mib, .. }
            | Grant::Mps { on: ShareOn::Gpu(_) | ShareOn::Instance(_), mem_mib, .. } => {
                Some(shards(mem_mib).min(gpu.model.shards()))
            }
            Grant::Whole(_) | Grant::Tasks(_) => None,
        }
    });
    per_gpu.min()
}
