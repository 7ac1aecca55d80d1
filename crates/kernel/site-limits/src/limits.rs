//! Holds a job to the site's limits, by whichever option it asks for GPUs.

use std::cell::OnceCell;

use geometry::Model;
use geometry::size::{display_gb, gigabytes_as_mib};
use node_state::InstanceLimit;
use protocol::{Isolation, Request};
use site_config::{Limit, SiteConfig};

use crate::limit::{self, allows, instances_under, whom};
use crate::submission::{can_run, limits_of};
use crate::tres::Entry;
use crate::{Submission, amounts};

/// Why the limits forbid this request to the job; `None` if they do not.
///
/// A whole GPU has the memory that its model is named by: a limit on memory forbids it unless every GPU that the job could
/// get has less.
#[must_use]
pub fn refusal(request: &Request, job: &Submission, config: &SiteConfig) -> Option<String> {
    Limits::of(job, config).refusal(request)
}

/// The limits of a job, and what they are held against: looked up once, however many lists of GRES a user fills.
struct Limits<'a> {
    all: Vec<&'a Limit>,
    job: &'a Submission,
    config: &'a SiteConfig,
    /// The model with the most memory that the job could get.
    largest: OnceCell<Option<&'static Model>>,
}

impl<'a> Limits<'a> {
    fn of(job: &'a Submission, config: &'a SiteConfig) -> Self {
        Self { all: limits_of(job, config), job, config, largest: OnceCell::new() }
    }

    fn refusal(&self, request: &Request) -> Option<String> {
        let by_one = |limit: &&Limit| {
            limit::refusal(limit, request).or_else(|| self.whole_is_too_much(request, limit))
        };
        self.all.iter().find_map(by_one).or_else(|| self.leaves_auto_nothing(request))
    }

    fn whole_is_too_much(&self, request: &Request, limit: &Limit) -> Option<String> {
        let most = limit.max_mem_mib.filter(|_| request.is_for_whole_gpus())?;
        let find = || {
            let nodes = self.config.nodes.iter().filter(|spec| can_run(self.job, spec));
            nodes.flat_map(|spec| spec.gpus.iter().copied()).max_by_key(|model| model.nominal_mib())
        };
        let largest = (*self.largest.get_or_init(find)).filter(|model| model.nominal_mib() > most)?;
        Some(format!(
            "a whole GPU ({}, {}) is too much {}: at most {}",
            largest.key,
            display_gb(largest.nominal_mib()),
            whom(limit),
            display_gb(most)
        ))
    }

    /// A limit may be newer than the job, or one that it was moved to. What is still `auto` once Slurm has counted it has shards, so
    /// it gets no whole GPU.
    fn leaves_auto_nothing(&self, request: &Request) -> Option<String> {
        let is_left = |kind: &Isolation| self.all.iter().all(|limit| allows(limit, kind));
        let auto = &self.config.defaults.auto;
        let parts: Vec<&Isolation> = auto.iter().filter(|kind| **kind != Isolation::Whole).collect();
        if request.isolation != Isolation::Auto || parts.is_empty() || parts.into_iter().any(is_left) {
            return None;
        }
        let limit = self.all.iter().find(|limit| limit.isolation.is_some())?;
        Some(format!("no kind that auto may choose is allowed {}: name one", whom(limit)))
    }
}

/// The request as the options that a user types, with the isolation that was made of them.
#[must_use]
pub fn in_options(request: &Request) -> String {
    let mut out = Vec::new();
    out.extend(request.isolation_typed.then(|| format!("--gpu-isolation={}", request.isolation)));
    out.extend(request.mem_mib.map(|m| format!("--gpu-mem={}", display_gb(m).replace(' ', ""))));
    let each = if request.per_task { "/task" } else { "" };
    let several = request.instances > 1 || request.per_task;
    out.extend(several.then(|| format!("--gpu-instances={}{each}", request.instances)));
    out.extend(request.threads.map(|t| format!("--gpu-sms={t}")));
    out.extend(
        (!request.times.is_empty()).then(|| format!("--gpu-times={}", request.listed().replace(", ", ","))),
    );
    out.extend(request.gpus.map(|n| format!("--gpus-per-node={n}")));
    out.extend(request.cap_w.map(|w| format!("--gpu-power={w}")));
    out.extend(request.auto_cap.then(|| "--gpu-power=auto".to_owned()));
    if !request.isolation_typed {
        let meaning = format!("--gpu-isolation={}", request.isolation);
        out.push(if out.is_empty() { meaning } else { format!("(taken as {meaning})") });
    }
    out.join(" ")
}

/// Says that these limits leave no instance that would do.
#[must_use]
pub fn none_left(request: &Request, limits: &[&Limit]) -> String {
    let bounds = |limit: &&&Limit| instances_under(&[limit]) != InstanceLimit::default();
    let places: Vec<String> = limits
        .iter()
        .filter(bounds)
        .map(|limit| format!("{} (line {} of tessera.toml)", whom(limit), limit.line))
        .collect();
    format!("{}: no instance that would do is allowed {}", in_options(request), places.join(", "))
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
    let limits = Limits::of(job, config);
    if limits.all.is_empty() {
        return None;
    }
    let gigabytes = |entry: &Entry| u32::try_from(entry.count).unwrap_or(u32::MAX);
    let whole = OnceCell::new();
    let why_not_whole = || whole.get_or_init(|| limits.refusal(&Request::new(Isolation::Whole))).as_deref();
    let by_entry = |entry: &Entry| {
        let (gives, why) = match entry.name.as_str() {
            // Exactly what the user wrote: the share that the engine makes of it is a little larger.
            "shard" => {
                let mem_mib = Some(gigabytes_as_mib(gigabytes(entry)));
                let share = Request { mem_mib, ..Request::new(Isolation::Mps) };
                ("an MPS share", limits.refusal(&share)?)
            }
            _ => ("whole GPUs", why_not_whole()?.to_owned()),
        };
        Some(format!("{}={} asks for {gives}: {why}", entry.option, entry.text))
    };
    let exclusive = || {
        let why = why_not_whole().filter(|_| job.exclusive)?;
        config
            .nodes
            .iter()
            .any(|spec| can_run(job, spec))
            .then(|| format!("an exclusive job gets every GPU of its nodes as a whole: {why}"))
    };
    // Users write `--gres=gpu:0` for a job without GPUs.
    entries.iter().filter(|entry| entry.count > 0).find_map(by_entry).or_else(exclusive)
}
