//! Holds a submission or a change to the site's limits, and a moldable job to the sizes that they leave.

use node_state::MigPolicy;
use protocol::Request;
use protocol::wire::parse_request;
use site_config::{Limit, NodeSpec, SiteConfig};
use site_limits::counted::chooses;
use site_limits::limit::instances_under;
use site_limits::{Submission, can_run, forbids_counted, limits_of, none_left};

/// Why the limits forbid the job as it is, by its request or, without one of ours, by what it asks of Slurm alone; `None`
/// if they do not.
#[must_use]
pub fn forbids(job: &Submission, config: &SiteConfig) -> Option<String> {
    let request = job.request.as_deref().and_then(|text| parse_request(text).ok());
    let none_left = || leaves_none(request.as_ref()?, job, config);
    forbids_counted(request.as_ref(), job, &job.tres.gpu_entries(), config).or_else(none_left)
}

/// Says that no node could ever serve the request with an instance that the limits leave, while one could without them.
fn leaves_none(request: &Request, job: &Submission, config: &SiteConfig) -> Option<String> {
    let limits = Some(limits_of(job, config)).filter(|limits| !limits.is_empty() && chooses(request))?;
    let served = |limits: &[&Limit]| {
        let policy = site_limits::policy_for(config, None, limits);
        let serves =
            |spec: &&NodeSpec| placement::admits_ever(&site_limits::node_of(spec), request, &policy).is_ok();
        let nodes = config.nodes.iter().filter(|spec| can_run(job, spec)).filter(serves);
        let names = nodes.flat_map(|spec| &spec.names).filter(|name| job.reaches(name));
        let needs = usize::try_from(job.nodes.max(1)).unwrap_or(usize::MAX);
        names.take(needs).count() == needs
    };
    (!served(&limits) && served(&[])).then(|| none_left(request, &limits))
}

/// The request without the sizes that no GPU of these nodes could serve it with, and without those above a limit.
pub(crate) fn possible_sizes(mut request: Request, nodes: &[&NodeSpec], limits: &[&Limit]) -> Request {
    if request.times.is_empty() {
        return request;
    }
    let left = instances_under(limits);
    let gpus =
        nodes.iter().flat_map(|spec| site_limits::node_of(spec).gpus).filter(|g| g.policy != MigPolicy::Off);
    let mut models: Vec<_> = gpus.map(|g| g.model).collect();
    models.dedup_by_key(|m| m.key.as_str());
    let sizes = models.iter().flat_map(|m| request.sizes_on(m)).map(|s| s.profile);
    let possible: Vec<u8> = sizes.filter(|p| left.allows(p)).map(|p| p.compute_slices).collect();
    request.times.retain(|t| possible.contains(&t.slices));
    request
}
