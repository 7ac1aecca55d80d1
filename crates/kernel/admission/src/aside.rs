//! Nodes of `tessera.toml` that Tessera leaves to Slurm alone, because what Slurm counts there is something else.

use std::collections::BTreeSet;

use site_config::SiteConfig;
use site_limits::{NodeGres, Submission};

/// Finds the nodes that the job may run on and that Tessera leaves to Slurm. `gres`: a node's `Gres=`;
/// `None`: Slurm does not know the node.
pub fn left_to_slurm(
    job: &Submission,
    config: &SiteConfig,
    gres: &dyn Fn(&str) -> Option<String>,
) -> BTreeSet<String> {
    let named = config.nodes.iter().flat_map(|spec| spec.names.iter().map(|name| (name, spec.gpus.len())));
    let aside = |(name, described): &(&String, usize)| {
        job.reaches(name)
            && gres(name)
                .is_some_and(|gres| NodeGres::of_gres(&gres).left_to_slurm(*described as u64).is_some())
    };
    named.filter(aside).map(|(name, _)| name.clone()).collect()
}
