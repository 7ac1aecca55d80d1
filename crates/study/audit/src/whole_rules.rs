//! Checks that a job may have these GPUs whole.

use geometry::GpuIndex;
use node_state::{Ask, MigPolicy, Node, Purpose};
use protocol::Isolation;

use crate::finding::{Finding, finding};
use crate::state::unused;

/// Tells whether the job may have anything of the GPU.
pub(crate) fn offered(node: &Node, ask: &Ask, at: GpuIndex) -> bool {
    let healthy = node.gpus.get(usize::from(at.0)).is_some_and(|gpu| !gpu.left_out);
    healthy && ask.allowed.is_none_or(|set| set.iter().any(|gpu| gpu == at))
}

/// True if the GPU could be given whole to this request.
pub(crate) fn could_be_whole(node: &Node, ask: &Ask, at: GpuIndex) -> bool {
    let Some(gpu) = node.gpus.get(usize::from(at.0)) else { return false };
    let kept_for_others = match gpu.purpose {
        Purpose::Any | Purpose::Whole => false,
        Purpose::Slurm => !ask.plain,
        Purpose::Shares | Purpose::Static => true,
    };
    offered(node, ask, at)
        && !kept_for_others
        && gpu.policy != MigPolicy::On
        && unused(&gpu.state)
        && ask.request.mem_mib.unwrap_or(0) <= gpu.model.usable_mib()
}

/// True if a set has as many GPUs of each group as the job must have.
pub(crate) fn meets_quotas(ask: &Ask, gpus: &[GpuIndex]) -> bool {
    ask.quotas.iter().all(|q| gpus.iter().filter(|g| q.of.iter().any(|of| of == **g)).count() == q.n)
}

pub(crate) fn check_whole(node: &Node, ask: &Ask, gpus: &[GpuIndex], out: &mut Vec<Finding>) {
    if gpus.len() != ask.request.gpus.unwrap_or(1) as usize {
        out.push(finding(None, "another number of GPUs than asked"));
    }
    if ask.request.isolation == Isolation::Auto && ask.request.instances > 1 {
        out.push(finding(None, "GPUs for a request that asks for instances"));
    }
    if (0..gpus.len()).any(|i| gpus[..i].contains(&gpus[i])) {
        out.push(finding(None, "a GPU twice"));
    }
    if !meets_quotas(ask, gpus) {
        out.push(finding(None, "another number of GPUs of a group than asked"));
    }
    for at in gpus.iter().filter(|at| !could_be_whole(node, ask, **at)) {
        out.push(finding(*at, "not to be had whole"));
    }
}
