//! What a user may change in a pending job.

use protocol::gres_list::{Entry, Tres};
use protocol::wire::parse_request;
use protocol::{Isolation, Request};
use site_config::SiteConfig;

use crate::Submission;
use crate::limits::forbids;

/// A change to a job.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// GRES that it names.
    pub tres: &'a Tres,
    /// It names GRES, a partition, an account or the exclusive use of nodes: what limits are held against.
    pub matters: bool,
    /// The number of shards that a planner's change brings, see [`crate::plan`].
    pub planned: Option<u32>,
    /// Root makes it. Limits do not hold for root.
    pub root: bool,
}

/// Judges a change. `job` is what the job would be after it.
///
/// The GRES of a managed job come from its request: other ones would let Slurm and the engine disagree, whoever asks.
///
/// # Errors
///
/// Why the change is refused: for the log and, where Slurm has a place for it, the user.
pub fn judge(change: Change<'_>, job: &Submission, config: Option<&SiteConfig>) -> Result<(), String> {
    let request = job.request.as_deref().and_then(|text| parse_request(text).ok());
    let request = request.filter(|request| request.isolation != Isolation::None);
    if let Some(request) = &request {
        keeps_its_gres(change, request)?;
    }
    let Some(config) = config.filter(|_| change.matters && !change.root) else { return Ok(()) };
    forbids(job, config).map_or(Ok(()), Err)
}

fn keeps_its_gres(change: Change<'_>, request: &Request) -> Result<(), String> {
    // One change reaches the records of an array one after another: the shards are in it from the second on.
    let ours = |e: &&Entry| e.name == "shard" && change.planned.is_some_and(|n| e.count == u64::from(n));
    match change.tres.gpu_entries().iter().find(|e| !ours(e)) {
        Some(entry) => Err(format!(
            "gres {} does not go with --gpu-isolation={}: cancel the job and submit it anew",
            entry.text, request.isolation
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gres(per_node: &str) -> Tres {
        Tres { per_node: Some(per_node.to_owned()), ..Tres::default() }
    }

    fn job(request: Option<&str>) -> Submission {
        Submission { request: request.map(str::to_owned), ..Submission::default() }
    }

    #[test]
    fn gres_of_a_managed_job_stay() {
        let judged = |request: Option<&str>, tres: &Tres, root, planned| {
            judge(Change { tres, matters: true, planned, root }, &job(request), None)
        };
        let (gpus, shards) = (gres("gres:gpu:8"), gres("gres:shard:10"));
        assert!(judged(Some("v1 iso=mig:1g.5gb"), &gpus, true, None).is_err());
        let planned = |n| judged(Some("v1 iso=mig times=1g:5,2g:3"), &shards, true, n);
        assert!(planned(Some(10)).is_ok() && planned(Some(5)).is_err() && planned(None).is_err());
        assert!(judged(None, &gpus, false, None).is_ok());
        assert!(judged(Some("v1 iso=none"), &gpus, false, None).is_ok());
        assert!(judged(Some("v1 iso=mig:1g.5gb"), &Tres::default(), false, None).is_ok());
    }

    #[test]
    fn a_change_is_held_to_the_limits_of_where_it_leads() {
        let text = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n\
                    [[limits]]\npartition = \"gpu\"\nisolation = [\"mig\", \"mps\"]\n";
        let (config, errors) = site_config::parse("t", text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        assert_eq!(errors, []);
        let config = config.unwrap();
        let moved = |request: Option<&str>, tres: &str, root| {
            let job = Submission { tres: gres(tres), partitions: vec!["gpu".to_owned()], ..job(request) };
            let change = Change { tres: &Tres::default(), matters: true, planned: None, root };
            judge(change, &job, Some(&config))
        };
        let why = "--gres=gpu:1 asks for whole GPUs: --gpu-isolation=whole is not allowed in partition gpu: use mig, mps";
        assert_eq!(moved(None, "gres:gpu:1", false), Err(why.to_owned()));
        assert_eq!(moved(Some("v1 iso=none"), "gres:gpu:1", false), Err(why.to_owned()));
        assert_eq!(moved(None, "gres:gpu:1", true), Ok(()), "root");
        assert_eq!(moved(None, "gres:shard:10", false), Ok(()));
        assert!(moved(Some("v1 iso=whole gpus=1"), "gres:gpu:1", false).is_err());
    }
}
