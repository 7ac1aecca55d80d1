//! Plain shards where nobody can have any: a job that asks Slurm for them would wait for ever.

use node_state::{Node, Purpose};
use placement::admits_ever;
use protocol::{Isolation, Request};
use site_config::SiteConfig;
use site_limits::{COUNTED_PER_NODE, Submission, can_run};

/// Why no GPU that the job may use could ever give it the shards that it asks Slurm for; `None` where one could, and where
/// that is not for us to say: on nodes that are not managed, on GPUs that are left to Slurm, and for more shards than a GPU
/// has, which some Slurms take from several.
pub(crate) fn refusal(job: &Submission, config: &SiteConfig) -> Option<String> {
    let entries = job.tres.gpu_entries();
    let uncounted = entries.iter().find(|entry| entry.name == "shard" && entry.count > 0 && !entry.per_node);
    if let Some(entry) = uncounted {
        let why = || format!("{}={}: {COUNTED_PER_NODE}", entry.option, entry.text);
        return only_ours(job, config).then(why);
    }
    let [entry] = &entries[..] else { return None };
    if entry.name != "shard" || job.exclusive {
        return None;
    }
    let count = u32::try_from(entry.count).ok().filter(|n| *n > 0)?;
    if !only_ours(job, config) {
        return None;
    }
    let policy = site_limits::policy_for(config, None, &[]);
    let candidates = config.nodes.iter().filter(|spec| can_run(job, spec));
    let mut why = None;
    for node in candidates.map(site_limits::node_of) {
        let mem_mib = Some(share_mib(&node, count)?);
        let request = Request { mem_mib, ..Request::new(Isolation::Mps) };
        why = why.or(Some(admits_ever(&node, &request, &policy).err()?));
    }
    Some(format!(
        "{}={} asks for a share, and no GPU that this job may use could ever give it: {}",
        entry.option, entry.text, why?
    ))
}

/// Tells whether the job can run on no node but those that Tessera manages.
#[must_use]
pub fn only_ours(job: &Submission, config: &SiteConfig) -> bool {
    let Some(nodes) = &job.partition_nodes else { return false };
    let reached = nodes.iter().filter(|name| job.reaches(name)).count();
    let is_ours = |name: &&String| job.reaches(name) && !job.left_to_slurm.contains(*name);
    let managed = config.nodes.iter().flat_map(|spec| &spec.names).filter(is_ours).count();
    managed >= reached
}

/// The memory of so many shards on the node's GPUs; `None`: Slurm's to say.
fn share_mib(node: &Node, count: u32) -> Option<u64> {
    if node.gpus.iter().any(|gpu| gpu.purpose == Purpose::Slurm) {
        return None;
    }
    node.shards_mib(count)
}
