//! What a user may change in a job that Tessera manages.

use protocol::Isolation;
use protocol::wire::parse_request;
use site_config::SiteConfig;

use crate::distinct;
use protocol::gres_list::{Entry, Tres};

/// Judges a change; `Err` says why not, for the log and, where Slurm has a place for it, the user.
///
/// `planned` is the number of shards that a planner's change brings, see [`crate::plan`].
///
/// The GRES of a managed job come from its request: other ones would let Slurm and the engine disagree, whoever asks.
/// A move to another partition is held to that one's limits, except for root.
pub fn judge(
    request: Option<&str>,
    new_tres: &Tres,
    new_partition: Option<&str>,
    account: Option<&str>,
    root: bool,
    planned: Option<u32>,
    config: Option<&SiteConfig>,
) -> Result<(), String> {
    let Some(request) = request.and_then(|text| parse_request(text).ok()) else { return Ok(()) };
    if request.isolation == Isolation::None {
        return Ok(());
    }
    // One change reaches the records of an array one after another: the shards are in it from the second on.
    let ours = |e: &&Entry| e.name == "shard" && planned.is_some_and(|n| e.count == u64::from(n));
    if let Some(entry) = new_tres.gpu_entries().iter().find(|e| !ours(e)) {
        return Err(format!(
            "gres {} does not go with --gpu-isolation={}: cancel the job and submit it anew",
            entry.text, request.isolation
        ));
    }
    let Some(config) = config.filter(|_| !root) else { return Ok(()) };
    distinct(new_partition.unwrap_or_default())
        .iter()
        .flat_map(|p| config.limits_for(Some(p), account))
        .find_map(|limit| limit.refusal(&request))
        .map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gres_of_a_managed_job_stay() {
        let gres = Tres { per_node: Some("gres:gpu:8".to_owned()), ..Tres::default() };
        assert!(judge(Some("v1 iso=mig:1g.5gb"), &gres, None, None, true, None, None).is_err());
        let shards = Tres { per_node: Some("gres:shard:10".to_owned()), ..Tres::default() };
        let planned = |n| judge(Some("v1 iso=mig times=1g:5,2g:3"), &shards, None, None, true, n, None);
        assert!(planned(Some(10)).is_ok() && planned(Some(5)).is_err() && planned(None).is_err());
        assert!(judge(None, &gres, None, None, false, None, None).is_ok());
        assert!(judge(Some("v1 iso=none"), &gres, None, None, false, None, None).is_ok());
        assert!(judge(Some("v1 iso=mig:1g.5gb"), &Tres::default(), None, None, false, None, None).is_ok());
    }
}
