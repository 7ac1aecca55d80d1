//! A job submission as plain values.

use std::collections::BTreeSet;
use std::sync::Arc;

use site_config::{Limit, NodeSpec, SiteConfig};

use crate::tres::Tres;

/// Facts about a submitted job that concern its GPUs.
#[derive(Clone, Debug, Default)]
pub struct Submission {
    /// The request as SPANK stored it. The user could have written any text there.
    pub request: Option<String>,
    /// GRES that the job asks Slurm for by Slurm's own options.
    pub tres: Tres,
    /// Partitions that the job may run in; the default one if it names none.
    pub partitions: Vec<String>,
    /// The nodes of those partitions; `None`: not known, so any node.
    pub partition_nodes: Option<Arc<BTreeSet<String>>>,
    /// Nodes that the job requires; `None`: none in particular.
    pub required_nodes: Option<BTreeSet<String>>,
    /// Nodes in `tessera.toml` that Tessera leaves to Slurm ([`crate::NodeGres::left_to_slurm`]). Only looked up for a
    /// job that asks for shards.
    pub left_to_slurm: BTreeSet<String>,
    /// Slurm tasks per node; `None`: as the request says.
    pub tasks_per_node: Option<u32>,
    /// `--gpu-bind`, as the user gave it.
    pub gpu_bind: Option<String>,
    /// The account that the job is charged to.
    pub account: Option<String>,
    /// The number of its user; `None`: not known.
    pub user: Option<u32>,
    /// QOS; `None`: not known, as of a submission that names none.
    pub qos: Option<String>,
    /// The fewest nodes that it asks for; 0 counts as 1.
    pub nodes: u32,
    /// Time limit, minutes (the largest number without one); `None`: not known.
    pub minutes: Option<u32>,
    /// True if the job or its partition is exclusive, so that Slurm gives the job every GPU of its nodes as a whole.
    pub exclusive: bool,
}

impl Submission {
    /// Tells whether the job may run on the node.
    #[must_use]
    pub fn reaches(&self, node: &str) -> bool {
        let within = |set: Option<&BTreeSet<String>>| set.is_none_or(|set| set.contains(node));
        within(self.partition_nodes.as_deref()) && within(self.required_nodes.as_ref())
    }
}

/// The limits that hold for a job, each once. Slurm may start it in any of its partitions, so all of theirs do.
#[must_use]
pub fn limits_of<'c>(job: &Submission, config: &'c SiteConfig) -> Vec<&'c Limit> {
    let holds = |limit: &&Limit| match &job.partitions[..] {
        [] => is_for(limit, job, None),
        // A user may name many: one is enough for a limit for all.
        all if limit.partition.is_none() => is_for(limit, job, all.first().map(String::as_str)),
        all => all.iter().any(|name| is_for(limit, job, Some(name))),
    };
    config.limits.iter().filter(holds).collect()
}

/// Tells whether the limit is for a job, in this partition (`None`: not known, so only limits for all match). In names of accounts and QOS
/// capitals do not count: Slurm knows all of them in small letters, those of a submission only after it has asked its plugins.
fn is_for(limit: &Limit, job: &Submission, partition: Option<&str>) -> bool {
    let named = |own: &Option<String>, is: &Option<String>| {
        own.as_deref().is_none_or(|own| is.as_ref().is_some_and(|is| is.eq_ignore_ascii_case(own)))
    };
    limit.partition.as_deref().is_none_or(|own| partition == Some(own))
        && named(&limit.account, &job.account)
        && named(&limit.qos, &job.qos)
        && (limit.user.is_none() || limit.uid.is_some() && limit.uid == job.user)
}

/// Tells whether the job may run on any of these nodes.
#[must_use]
pub fn can_run(job: &Submission, spec: &NodeSpec) -> bool {
    spec.names.iter().any(|name| job.reaches(name))
}
