//! Finds out if the job's node had a place earlier for a request that would have been enough.

use admission::Ruling;
use geometry::size::gigabytes_as_mib;
use geometry::{GpuIndex, JobId, Uid};
use node_state::{Ask, Kind, Policy, Spread};
use protocol::wire::{encode_request, parse_grant, parse_request};
use protocol::{AdminComment, Grant, Isolation, Request, Started};
use replay::earlier::{Held, Waited, earlier};
use site_config::{NodeSpec, SiteConfig};
use site_limits::Submission;

use crate::clock::epoch_seconds;
use crate::slurm::sacct::jobs::{self, RunOn};
use crate::slurm::sacctmgr;

/// An epilog may take so long, and Slurm's backfill may look at the queue so seldom, seconds.
const SLACK_S: u64 = 60;

/// A place that was there for a smaller request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Earlier {
    pub(super) node: String,
    /// How long before there was one for what the job asked.
    pub(super) seconds: u64,
}

/// Asks the accounting; `None` where nothing can be said: of a job on several nodes, whatever is unknown of others, of a node
/// that was drained or down meanwhile.
pub(super) fn look(
    job: &str,
    got: &Started,
    submit: u64,
    start: u64,
    gb: u32,
    config: &SiteConfig,
) -> Option<Earlier> {
    let mut parts = got.parts();
    let (node, None) = (parts.next()?.0, parts.next()) else { return None };
    let now = epoch_seconds();
    if start <= submit || sacctmgr::has_events(node, (submit, start), now).ok()? {
        return None;
    }
    let runs = jobs::on_node(node, (submit, start), now).ok()?;
    among(job, node, start, gb, &runs, config)
}

/// Answers for these runs on the node.
fn among(job: &str, node: &str, start: u64, gb: u32, runs: &[RunOn], config: &SiteConfig) -> Option<Earlier> {
    let is_own = |run: &&RunOn| run.job.id == job && run.job.start == Some(start);
    let own = runs.iter().find(is_own)?;
    let spec = config.node(node)?;
    let mut users: Vec<&str> = vec![&own.job.user];
    let mut held = Vec::new();
    for run in runs.iter().filter(|run| !is_own(run)) {
        let Some(start) = run.job.start.filter(|_| run.has_gpus()) else { continue };
        let user = users.iter().position(|known| *known == run.job.user).unwrap_or_else(|| {
            users.push(&run.job.user);
            users.len() - 1
        });
        held.push(Held {
            start,
            end: run.job.is_over().then(|| start.saturating_add(run.job.ran_s)),
            uid: Uid(u32::try_from(user).ok()?),
            grant: grant(&run.job.comment, node, spec)?,
        });
    }
    let asked = parse_request(own.job.comment.asks.as_deref()?).ok()?;
    let (asked, smaller) = (question(asked.clone(), config)?, question(less(asked, gb)?, config)?);
    let empty = site_limits::node_of(spec);
    let from = own.job.eligible;
    let policy = &asked.1;
    let waited = Waited {
        node: &empty,
        held: &held,
        from,
        to: start,
        slack: SLACK_S,
        asked: &asked.0,
        smaller: &smaller.0,
        policy,
    };
    Some(Earlier { node: node.to_owned(), seconds: earlier(&waited)? })
}

/// The request with so much memory; `None`: that is not all that its size depends on.
fn less(request: Request, gb: u32) -> Option<Request> {
    let by_memory = match &request.isolation {
        Isolation::Mig(profile) => profile.is_none() && !request.is_moldable(),
        Isolation::Mps => true,
        _ => false,
    };
    by_memory.then(|| Request { mem_mib: Some(gigabytes_as_mib(gb)), ..request })
}

/// The question that the controller asks a node, if the site admits the request.
fn question(request: Request, config: &SiteConfig) -> Option<(Ask, Policy)> {
    let job = Submission { request: Some(encode_request(&request)), ..Submission::default() };
    let Ruling::Accepted { request, add: Some(("shard", _)), .. } = admission::judge(&job, Some(config))
    else {
        return None;
    };
    let mut policy = site_limits::policy_for(config, None, &[]);
    policy.auto.retain(|kind| *kind != Kind::Whole);
    // No other of these jobs has such a number.
    let ask = Ask { spread: Spread::ALIKE, ..Ask::new(JobId(u32::MAX), Uid(0), request) };
    Some((ask, policy))
}

/// Reads the job's grant on the node; `None`: the accounting does not say.
fn grant(comment: &AdminComment, node: &str, spec: &NodeSpec) -> Option<Grant> {
    let model = |gpu: GpuIndex| spec.gpus.get(usize::from(gpu.0)).copied();
    let (_, grant) = comment.started()?.parts().find(|(name, _)| *name == node)?;
    Some(parse_grant(grant, &model).ok()?.grant)
}
