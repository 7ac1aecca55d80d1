//! Decides whether a submission is accepted, and with which GRES. Pure: the job as plain values in, a ruling out.

use std::cmp::Reverse;

use decision_counts::decisions::Reason;
use placement::Admission;
use protocol::wire::parse_request;
use protocol::{Isolation, MAX_INSTANCES, MAX_SEATS, Request};
use site_config::{NodeSpec, SiteConfig};
use site_limits::tres::Entry;
use site_limits::{Submission, amounts, can_run, forbids_counted, in_options, limits_of, refusal};

use crate::limits::possible_sizes;
use crate::meaning::{SlurmAsks, meaning};
use crate::{Refusal, note, power, shares};

/// Decision about a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// Asks nothing of Tessera.
    Untouched,
    /// Tessera places it.
    Accepted {
        /// The request with the site's defaults filled in.
        request: Request,
        /// GRES to add, name and count; `None`: what it asks for itself stands.
        add: Option<(&'static str, u32)>,
        /// Advice for its user, though nothing is wrong.
        note: Option<String>,
    },
    /// Refused.
    Refused(Refusal),
}

/// Judges a submission. `config` is `None` where the site has no `tessera.toml`.
#[must_use]
pub fn judge(job: &Submission, config: Option<&SiteConfig>) -> Ruling {
    let ruling = ruled(job, config).unwrap_or_else(Ruling::Refused);
    match (&ruling, &job.gpu_bind) {
        (Ruling::Accepted { request, add: Some(("shard", _)), .. }, Some(bind)) => {
            let why = format!(
                "--gpu-bind={bind} cannot be combined with {}: it binds tasks to whole GPUs, and tasks get their instances or share \
                 without it; leave it out",
                in_options(request)
            );
            Ruling::Refused(why.into())
        }
        _ => ruling,
    }
}

fn ruled(job: &Submission, config: Option<&SiteConfig>) -> Result<Ruling, Refusal> {
    let request = job.request.as_deref().map(parse_request).transpose();
    let request = request.map_err(|e| format!("the GPU request is unreadable: {e}"))?;
    match (request.filter(|request| request.isolation != Isolation::None), config) {
        (Some(request), Some(config)) => {
            let ruling = accept(job, request.clone(), config)?;
            let Ruling::Accepted { request: meant, add, .. } = ruling else { return Ok(ruling) };
            let gets_part = |without: &Submission| {
                let ruling = accept(without, request.clone(), config);
                matches!(ruling, Ok(Ruling::Accepted { add: Some(("shard", _)), .. }))
            };
            let note = note::whole_instead_of_part(&request, job, gets_part);
            Ok(Ruling::Accepted { request: meant, add, note })
        }
        (Some(_), None) => {
            let why = "this cluster has no tessera.toml: the --gpu options do not work here";
            Err(Refusal::new(Reason::Config, why))
        }
        (None, Some(config)) => {
            let forbidden = forbids_counted(None, job, &job.tres.gpu_entries(), config).map(Refusal::limit);
            let refused = forbidden.or_else(|| shares::refusal(job, config).map(Refusal::impossible));
            refused.map_or(Ok(Ruling::Untouched), Err)
        }
        (None, None) => Ok(Ruling::Untouched),
    }
}

/// The ruling on a job with a request, without a note.
pub(crate) fn accept(job: &Submission, request: Request, config: &SiteConfig) -> Result<Ruling, Refusal> {
    let slurm = SlurmAsks { tres: &job.tres, exclusive: job.exclusive };
    let request = per_node(request, job)?;
    let request = with_seats(meaning(request, slurm, &config.defaults.of_requests())?, job, config);
    if request.isolation != Isolation::Auto {
        return admit(job, request, config);
    }
    let alone = |kind: &Isolation| Request::new(kind.clone());
    let allowed = |kind: &&Isolation| refusal(&alone(kind), job, config).is_none();
    let kinds: Vec<&Isolation> = config.defaults.auto.iter().filter(allowed).collect();
    if kinds.len() == config.defaults.auto.len() {
        return admit(job, request, config);
    }
    // The engine does not know the limits of partitions: what `auto` may be there is settled here.
    let tries = kinds
        .into_iter()
        .map(|kind| admit(job, Request { isolation: kind.clone(), ..request.clone() }, config));
    let none = format!("{}: no kind that auto may choose is allowed here", in_options(&request));
    let mut why_not = Refusal::limit(none);
    for outcome in tries {
        match outcome {
            Ok(verdict) => return Ok(verdict),
            Err(why) => why_not = why,
        }
    }
    Err(why_not)
}

/// The request with instances counted per node.
///
/// # Errors
///
/// There would be more than any request may have.
fn per_node(request: Request, job: &Submission) -> Result<Request, String> {
    if !request.per_task {
        return Ok(request);
    }
    let tasks = job.tasks_per_node.unwrap_or(1).max(1);
    match request.instances.checked_mul(tasks).filter(|n| *n <= MAX_INSTANCES) {
        Some(instances) => Ok(Request { instances, per_task: false, ..request }),
        None => Err(format!(
            "{} for {tasks} Slurm tasks per node: at most {MAX_INSTANCES} instances per node can be asked for",
            in_options(&request)
        )),
    }
}

/// The request with a seat for each Slurm task, if it may be given seats.
fn with_seats(request: Request, job: &Submission, config: &SiteConfig) -> Request {
    let tasks = |isolation: &Isolation| matches!(isolation, Isolation::Tasks { .. });
    let may = match &request.isolation {
        Isolation::Auto => config.defaults.auto.iter().any(tasks),
        isolation => tasks(isolation),
    };
    let seats = if may { job.tasks_per_node.unwrap_or(request.seats) } else { 1 };
    Request { seats: seats.clamp(1, MAX_SEATS), ..request }
}

pub(crate) fn admit(job: &Submission, request: Request, config: &SiteConfig) -> Result<Ruling, Refusal> {
    refusal(&request, job, config).map_or(Ok(()), |why| Err(Refusal::limit(why)))?;
    let candidates: Vec<&NodeSpec> = config.nodes.iter().filter(|spec| can_run(job, spec)).collect();
    if candidates.is_empty() {
        let why = format!("{}: no node that this job may use is managed by Tessera", in_options(&request));
        return Err(Refusal::impossible(why));
    }
    let policy = site_limits::policy_for(config, None, &limits_of(job, config));
    let answers: Vec<_> = candidates
        .iter()
        .map(|s| placement::admits_ever(&site_limits::node_of(s), &request, &policy))
        .collect();
    let admitted = answers.iter().filter_map(|a| a.as_ref().ok().copied());
    // Slurm can only be asked for one kind: shards where any node can give a part, and as few as any node counts.
    let shards =
        admitted.clone().filter_map(|a| if let Admission::Shards(n) = a { Some(n) } else { None }).min();
    let gpus = admitted.filter_map(|a| if let Admission::Gpus(n) = a { Some(n) } else { None }).min();
    let fits = |request: &Request, counted: &[Entry]| {
        let why = amounts::never(amounts::least(Some(request), counted, job, config), job, config);
        why.map_or(Ok(()), |why| Err(Refusal::limit(format!("{}: {why}", in_options(request)))))
    };
    match (shards, gpus) {
        (Some(shards), _) => {
            fits(&request, &[])?;
            let request = possible_sizes(request, &candidates, &limits_of(job, config));
            Ok(Ruling::Accepted { request, add: Some(("shard", shards)), note: None })
        }
        (None, Some(gpus)) => {
            if let Some(why) = power::never(&request, gpus, job, &candidates, config) {
                let why = format!("{}: no node could ever satisfy this: {why}", in_options(&request));
                return Err(Refusal::impossible(why));
            }
            let entries = job.tres.gpu_entries();
            let has_gpus = !entries.is_empty();
            fits(&request, &if has_gpus { entries } else { vec![Entry::per_node("gpu", gpus.into())] })?;
            let tasks = matches!(request.isolation, Isolation::Tasks { .. });
            let isolation = if tasks { request.isolation.clone() } else { Isolation::Whole };
            let request = Request { isolation, ..request };
            Ok(Ruling::Accepted { request, add: (!has_gpus).then_some(("gpu", gpus)), note: None })
        }
        (None, None) => {
            fits(&request, &[])?;
            Err(Refusal::impossible(never(&request, &answers)))
        }
    }
}

/// Why no node could ever satisfy the request: of the reasons that come with something nearer the one of the node that
/// could give the most memory, else the first.
fn never(request: &Request, answers: &[Result<Admission, placement::Never>]) -> String {
    let reasons = || answers.iter().filter_map(|a| a.as_ref().err());
    let nearer = reasons().filter(|n| n.nearest.is_some());
    // Of several that give as much `min_by_key` takes the first.
    let best = nearer.min_by_key(|n| Reverse(n.gives_mib)).or_else(|| reasons().next());
    let why = best.map_or_else(String::new, ToString::to_string);
    format!("{}: no node could ever satisfy this: {why}", in_options(request))
}

#[cfg(test)]
mod tests;
