//! What becomes of a submission. Pure: the job as plain values in, a verdict out.

use placement::request::Pattern;
use placement::size::display_gb;
use placement::wire::parse_request;
use placement::{Admission, Isolation, Request};
use site_config::{Limit, NodeSpec, SiteConfig};

use crate::plan;
use crate::submission::Submission;
use crate::tres::Tres;

/// What becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ruling {
    /// It asks nothing of Tessera.
    Untouched,
    /// It is managed.
    Accepted {
        /// The request with the site's defaults filled in.
        request: Request,
        /// GRES to add, name and count; `None`: what it asks for itself stands.
        add: Option<(&'static str, u32)>,
    },
    /// It is refused; this is for the user.
    Refused(String),
}

/// Judges a submission. `config` is `None` where the site has no `tessera.toml`.
pub(crate) fn judge(job: &Submission, config: Option<&SiteConfig>) -> Ruling {
    let Some(text) = &job.request else { return Ruling::Untouched };
    let outcome =
        parse_request(text).map_err(|e| format!("the GPU request is unreadable: {e}")).and_then(|request| {
            let request = plan::meant(request);
            if request.isolation == Isolation::None {
                return Ok(Ruling::Untouched);
            }
            let config =
                config.ok_or("this cluster has no tessera.toml: the --gpu options do not work here")?;
            accept(job, request, config)
        });
    outcome.unwrap_or_else(Ruling::Refused)
}

fn accept(job: &Submission, request: Request, config: &SiteConfig) -> Result<Ruling, String> {
    let mut request = request;
    if !request.isolation_typed && request.isolation == Isolation::Auto && !asks_for_whole_gpus(job) {
        request.isolation = config.defaults.isolation.clone();
    }
    let mut request = with_slurms_own(with_defaults(request, config), &job.tres)?;
    if job.exclusive {
        request = exclusively(request)?;
    } else {
        has_its_ranks(&request, &job.tres)?;
    }
    if request.isolation != Isolation::Auto {
        return admit(job, request, config);
    }
    let allowed = |kind: &&Isolation| limits_of(job, config).iter().all(|l| l.allows(kind));
    let kinds: Vec<&Isolation> = config.defaults.auto.iter().filter(allowed).collect();
    if kinds.len() == config.defaults.auto.len() {
        return admit(job, request, config);
    }
    // The engine does not know the limits of partitions: what `auto` may be there is settled here.
    let tries = kinds
        .into_iter()
        .map(|kind| admit(job, Request { isolation: kind.clone(), ..request.clone() }, config));
    let mut refusal = format!("{}: none of what auto stands for is allowed here", words(&request));
    for outcome in tries {
        match outcome {
            Ok(verdict) => return Ok(verdict),
            Err(why) => refusal = why,
        }
    }
    Err(refusal)
}

pub(crate) fn admit(job: &Submission, request: Request, config: &SiteConfig) -> Result<Ruling, String> {
    limits_of(job, config).iter().find_map(|limit| limit.refusal(&request)).map_or(Ok(()), Err)?;
    let candidates: Vec<&NodeSpec> =
        config.nodes.iter().filter(|spec| spec.names.iter().any(|n| job.reaches(n))).collect();
    if candidates.is_empty() {
        return Err(format!("{}: no node that this job may use is managed by Tessera", words(&request)));
    }
    let policy = config.policy();
    let answers: Vec<_> =
        candidates.iter().map(|s| placement::admits_ever(&s.to_node(), &request, &policy, true)).collect();
    let admitted = answers.iter().filter_map(|a| a.as_ref().ok().copied());
    // Slurm can only be asked for one kind: shards where any node can give a part, and as few as any node counts.
    let shards =
        admitted.clone().filter_map(|a| if let Admission::Shards(n) = a { Some(n) } else { None }).min();
    let gpus = admitted.filter_map(|a| if let Admission::Gpus(n) = a { Some(n) } else { None }).min();
    match (shards, gpus) {
        (Some(shards), _) => {
            let request = plan::without_impossible_sizes(request, &candidates);
            Ok(Ruling::Accepted { request, add: Some(("shard", shards)) })
        }
        (None, Some(gpus)) => {
            let has_gpus = !job.tres.gpu_entries().is_empty();
            let request = Request { isolation: Isolation::Whole, ..request };
            Ok(Ruling::Accepted { request, add: (!has_gpus).then_some(("gpu", gpus)) })
        }
        (None, None) => Err(never(&request, &candidates, &policy, &answers)),
    }
}

/// Whether the job says by Slurm's own means that it wants whole GPUs: the site's default is for those that do not say.
fn asks_for_whole_gpus(job: &Submission) -> bool {
    job.exclusive || job.tres.gpu_entries().iter().any(|entry| entry.name == "gpu")
}

/// The request with what the site says where the job does not.
fn with_defaults(mut request: Request, config: &SiteConfig) -> Request {
    let defaults = &config.defaults;
    let by_memory = match &request.isolation {
        // Whoever says how long a job runs on a size says that it fits there.
        Isolation::Mig(profile) => profile.is_none() && request.times.is_empty(),
        Isolation::Mps | Isolation::Auto => true,
        Isolation::Whole | Isolation::None => false,
    };
    if by_memory && request.mem_mib.is_none() {
        request.mem_mib = defaults.gpu_mem_mib;
    }
    if request.isolation == Isolation::Mps && request.threads.is_none() {
        request.threads = defaults.mps_threads;
    }
    request
}

/// Takes what the job asks from Slurm itself into account, or says how it contradicts the request.
fn with_slurms_own(mut request: Request, tres: &Tres) -> Result<Request, String> {
    let entries = tres.gpu_entries();
    let asked = words(&request);
    if let Some(shard) = entries.iter().find(|e| e.name == "shard") {
        return Err(format!(
            "{}={} does not go with {asked}: Tessera asks for the shards itself; leave it out",
            shard.option, shard.text
        ));
    }
    let Some(first) = entries.first() else {
        return Ok(request);
    };
    match request.isolation {
        // "Cheapest that fits" among whole GPUs, because whole GPUs are what it counts.
        Isolation::Auto | Isolation::Whole => {
            if request.instances > 1 {
                return Err(format!(
                    "{}={} does not go with --gpu-instances={}: use one of them",
                    first.option, first.text, request.instances
                ));
            }
            request.isolation = Isolation::Whole;
            let per_node =
                entries.iter().filter(|e| e.per_node).fold(0, |n: u64, e| n.saturating_add(e.count));
            request.gpus = Some(u32::try_from(per_node).unwrap_or(u32::MAX)).filter(|n| *n > 0);
            Ok(request)
        }
        _ => Err(format!(
            "{}={} does not go with {asked}: it asks for whole GPUs; leave it out, or use --gpu-isolation=whole",
            first.option, first.text
        )),
    }
}

/// Whether a pattern of the user's own speaks of the GPUs that the job has, where their number per node is known: an
/// exclusive job has all of its nodes', one that says nothing of GPUs to Slurm has one.
fn has_its_ranks(request: &Request, tres: &Tres) -> Result<(), String> {
    let one = || (request.isolation == Isolation::Whole && tres.gpu_entries().is_empty()).then_some(1);
    let (Some(pattern @ Pattern::Edges(_)), Some(gpus)) = (&request.pattern, request.gpus.or_else(one))
    else {
        return Ok(());
    };
    let edges = pattern.edges(usize::try_from(gpus).unwrap_or(usize::MAX));
    edges.map(drop).map_err(|e| {
        format!(
            "--gpu-pattern: {e}: ranks are a node's GPUs, counted from 0, as many as --gpus-per-node or --gres=gpu:N says"
        )
    })
}

/// What an exclusive job can have: Slurm allocates shared GRES to none, so one that asks for a part would wait for ever.
fn exclusively(request: Request) -> Result<Request, String> {
    match request.isolation {
        Isolation::Auto if request.instances <= 1 => Ok(Request { isolation: Isolation::Whole, ..request }),
        Isolation::Whole | Isolation::None => Ok(request),
        _ => Err(format!(
            "--exclusive does not go with {}: an exclusive job gets every GPU of its nodes as a whole; leave it out, or \
             use --gpu-isolation=whole",
            words(&request)
        )),
    }
}

/// The limits that hold: Slurm may start it in any of its partitions.
pub(crate) fn limits_of<'a>(job: &'a Submission, config: &'a SiteConfig) -> Vec<&'a Limit> {
    let account = job.account.as_deref();
    if job.partitions.is_empty() {
        return config.limits_for(None, account).collect();
    }
    job.partitions.iter().flat_map(|p| config.limits_for(Some(p), account)).collect()
}

/// Why no node could ever satisfy the request: the first reason that comes with something nearer.
fn never(
    request: &Request,
    candidates: &[&NodeSpec],
    policy: &placement::Policy,
    answers: &[Result<Admission, placement::Never>],
) -> String {
    let on_several =
        |spec: &&NodeSpec| placement::admits_ever(&spec.to_node(), request, policy, false).is_ok();
    if candidates.iter().any(on_several) {
        return format!(
            "{}: no single GPU holds all of it, and Slurm takes a job's shards on a node from one GPU; ask fewer \
             instances per node and more nodes, or --gpu-isolation=whole",
            words(request)
        );
    }
    let reasons = || answers.iter().filter_map(|a| a.as_ref().err());
    let best = reasons().find(|n| n.nearest.is_some()).or_else(|| reasons().next());
    let why = best.map_or_else(String::new, ToString::to_string);
    format!("{}: no node could ever satisfy this: {why}", words(request))
}

/// The request as the options a user types, and what was made of them.
fn words(request: &Request) -> String {
    let mut out = Vec::new();
    out.extend(request.isolation_typed.then(|| format!("--gpu-isolation={}", request.isolation)));
    out.extend(request.mem_mib.map(|m| format!("--gpu-mem={}", display_gb(m).replace(' ', ""))));
    out.extend((request.instances > 1).then(|| format!("--gpu-instances={}", request.instances)));
    out.extend(request.threads.map(|t| format!("--gpu-threads={t}")));
    out.extend(
        (!request.times.is_empty()).then(|| format!("--gpu-times={}", request.listed().replace(", ", ","))),
    );
    out.extend(request.gpus.map(|n| format!("--gpus-per-node={n}")));
    if !request.isolation_typed {
        let meaning = format!("--gpu-isolation={}", request.isolation);
        out.push(if out.is_empty() { meaning } else { format!("(taken as {meaning})") });
    }
    out.join(" ")
}

#[cfg(test)]
mod tests;
