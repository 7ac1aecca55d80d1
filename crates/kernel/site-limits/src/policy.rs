//! A site's file in the forms that the placement engine takes: its nodes, and the policy for a job.

use geometry::Model;
use node_state::{Fill, Gpu, Kind, MigPolicy, Node, Policy, Purpose, SetPolicy};
use protocol::Isolation;
use site_config::{Defaults, GpuUse, Limit, NodeSpec, Partition, SiteConfig};

use crate::limit::{allows, instances_under};

/// A GPU of this use under its node's `mig`, with no job.
fn gpu_of(of: &GpuUse, model: &'static Model, mig: MigPolicy) -> Gpu {
    match of.rules(model, mig) {
        (Purpose::Any, policy) => Gpu::new(model, policy),
        (purpose, _) => Gpu::kept(model, purpose, of.fixed()),
    }
}

/// Builds one of these nodes, without jobs, and without instances but the static ones.
#[must_use]
pub fn node_of(spec: &NodeSpec) -> Node {
    let gpus = spec.gpus.iter().zip(&spec.uses).map(|(model, of)| gpu_of(of, model, spec.mig));
    Node { keep_uncut: spec.keep_uncut, ..Node::new(gpus.collect(), spec.links.clone()) }
}

fn own<'c>(config: &'c SiteConfig, partition: Option<&str>) -> Option<&'c Partition> {
    partition.and_then(|name| config.partitions.iter().find(|p| p.name == name))
}

/// Gives the part of its performance alone that an application keeps which shares a GPU or is under a power cap, for jobs of this partition;
/// `None`: of no known partition.
#[must_use]
pub fn alpha(config: &SiteConfig, partition: Option<&str>) -> f64 {
    own(config, partition).and_then(|p| p.alpha).unwrap_or(config.power.alpha)
}

/// Gives the rules for choosing sets of whole GPUs for jobs of this partition that do not say; `None`: of no known partition.
#[must_use]
pub fn sets(config: &SiteConfig, partition: Option<&str>) -> SetPolicy {
    let Defaults { pattern, bandwidth, selection, wait, .. } = &config.defaults;
    let own = own(config, partition);
    SetPolicy {
        selection: own.and_then(|p| p.selection).unwrap_or(*selection),
        model: own.and_then(|p| p.model).unwrap_or(config.bandwidth_model),
        pattern: own.and_then(|p| p.pattern.clone()).unwrap_or_else(|| pattern.clone()),
        bandwidth: own.and_then(|p| p.bandwidth).unwrap_or(*bandwidth),
        wait: own.and_then(|p| p.wait).or(*wait),
    }
}

/// Gives the nodes that jobs of this partition fill first; `None`: of no known partition. The answer `None` is Slurm's own order.
#[must_use]
pub fn node_order(config: &SiteConfig, partition: Option<&str>) -> Option<Fill> {
    own(config, partition).and_then(|p| p.node_order).unwrap_or(config.defaults.node_order)
}

/// The policy for jobs of a partition (`None`: of no known one) that these limits bind: what they ask for without naming it is chosen among
/// what is allowed.
#[must_use]
pub fn policy_for(config: &SiteConfig, partition: Option<&str>, limits: &[&Limit]) -> Policy {
    let allowed = |isolation: &&Isolation| limits.iter().all(|limit| allows(limit, isolation));
    let kind = |isolation: &Isolation| match isolation {
        Isolation::Mig(_) => Some(Kind::Mig),
        Isolation::Mps => Some(Kind::Mps),
        Isolation::Tasks { .. } => Some(Kind::Tasks),
        Isolation::Whole => Some(Kind::Whole),
        Isolation::Auto | Isolation::None => None,
    };
    Policy {
        auto: config.defaults.auto.iter().filter(allowed).filter_map(kind).collect(),
        share_between_users: config.mps.share_between_users,
        max_threads: config.mps.max_threads,
        mps_threads: config.defaults.mps_threads,
        default_mem_mib: config.defaults.gpu_mem_mib,
        shared_memory: config.power.shared_memory,
        tasks: config.tasks.as_ref().map(|tasks| tasks.pool),
        sets: sets(config, partition),
        instances: instances_under(limits),
    }
}
