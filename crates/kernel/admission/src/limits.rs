//! Holds a job to the site's limits, by whichever option it asks for GPUs.

use crate::gres_list::Entry;
use geometry::size::{display_gb, gigabytes_as_mib};
use node_state::MigPolicy;
use protocol::wire::parse_request;
use protocol::{Isolation, Request};
use site_config::{Limit, NodeSpec, SiteConfig};

use crate::submission::{can_run, limits_of};
use crate::{Submission, amounts};

/// Why the limits forbid this request to the job; `None` if they do not.
///
/// A whole GPU has the memory that its model is named by: a limit on memory forbids it unless every GPU that the job could
/// get has less.
#[must_use]
pub fn refusal(request: &Request, job: &Submission, config: &SiteConfig) -> Option<String> {
    limits_of(job, config)
        .into_iter()
        .find_map(|limit| limit.refusal(request).or_else(|| whole_is_too_much(request, limit, job, config)))
}

fn whole_is_too_much(
    request: &Request,
    limit: &Limit,
    job: &Submission,
    config: &SiteConfig,
) -> Option<String> {
    let whole = match request.isolation {
        Isolation::Whole => true,
        Isolation::Tasks { .. } => request.gpus.is_some(),
        _ => false,
    };
    let most = limit.max_mem_mib.filter(|_| whole)?;
    let gpus = config.nodes.iter().filter(|spec| can_run(job, spec)).flat_map(|spec| &spec.gpus);
    let largest = gpus.max_by_key(|model| model.nominal_mib()).filter(|model| model.nominal_mib() > most)?;
    Some(format!(
        "a whole GPU ({}, {}) is too much {}: at most {}",
        largest.key,
        display_gb(largest.nominal_mib()),
        limit.whom(),
        display_gb(most)
    ))
}

/// Why the limits forbid the job as it is, by its request or, without one of ours, by what it asks of Slurm alone; `None`
/// if they do not.
#[must_use]
pub fn forbids(job: &Submission, config: &SiteConfig) -> Option<String> {
    let request = job.request.as_deref().and_then(|text| parse_request(text).ok());
    forbids_counted(request.as_ref(), job, &job.tres.gpu_entries(), config)
}

/// Explains why a limit forbids a job with this `request` of which Slurm has counted this, whatever it was submitted with.
#[must_use]
pub fn forbids_counted(
    request: Option<&Request>,
    job: &Submission,
    counted: &[Entry],
    config: &SiteConfig,
) -> Option<String> {
    let ours = request.filter(|request| request.isolation != Isolation::None);
    let by_kind = match ours {
        Some(request) => refusal(request, job, config),
        None => plain_refusal(job, counted, config),
    };
    by_kind.or_else(|| amounts::never(amounts::least(ours, counted, job, config), job, config))
}

/// Why the limits forbid what the job asks of Slurm alone, without a request of ours or with `none`; `None` if they do
/// not.
#[must_use]
fn plain_refusal(job: &Submission, entries: &[Entry], config: &SiteConfig) -> Option<String> {
    if limits_of(job, config).is_empty() {
        return None;
    }
    let gigabytes = |entry: &Entry| u32::try_from(entry.count).unwrap_or(u32::MAX);
    let by_entry = |entry: &Entry| {
        let request = match entry.name.as_str() {
            // Exactly what the user wrote: the share that the engine makes of it is a little larger.
            "shard" => {
                Request { mem_mib: Some(gigabytes_as_mib(gigabytes(entry))), ..Request::new(Isolation::Mps) }
            }
            _ => Request::new(Isolation::Whole),
        };
        let why = refusal(&request, job, config)?;
        let gives = if request.isolation == Isolation::Whole { "whole GPUs" } else { "an MPS share" };
        Some(format!("{}={} asks for {gives}: {why}", entry.option, entry.text))
    };
    let exclusive = || {
        let on_ours = config.nodes.iter().any(|spec| can_run(job, spec));
        let why =
            refusal(&Request::new(Isolation::Whole), job, config).filter(|_| job.exclusive && on_ours)?;
        Some(format!("an exclusive job gets every GPU of its nodes as a whole: {why}"))
    };
    // Users write `--gres=gpu:0` for a job without GPUs.
    entries.iter().filter(|entry| entry.count > 0).find_map(by_entry).or_else(exclusive)
}

/// The request without the sizes that no GPU of these nodes could serve it with, and without those above a limit.
pub(crate) fn possible_sizes(mut request: Request, nodes: &[&NodeSpec], limits: &[&Limit]) -> Request {
    if request.times.is_empty() {
        return request;
    }
    let most = limits.iter().filter_map(|limit| limit.max_mem_mib).min().unwrap_or(u64::MAX);
    let gpus = nodes.iter().flat_map(|spec| spec.to_node().gpus).filter(|g| g.policy != MigPolicy::Off);
    let mut models: Vec<_> = gpus.map(|g| g.model).collect();
    models.dedup_by_key(|m| m.key.as_str());
    let sizes = models.iter().flat_map(|m| request.sizes_on(m)).map(|s| s.profile);
    let possible: Vec<u8> = sizes.filter(|p| p.nominal_mib() <= most).map(|p| p.compute_slices).collect();
    request.times.retain(|t| possible.contains(&t.slices));
    request
}
