//! The meaning of a request, once Slurm's own counts and the site's defaults are known.
//!
//! This is the one place that decides it. `sbatch` checks options against each other and calls [`Request::implied_isolation`]. slurmctld
//! and `tessera explain` call [`meaning`] when a job is submitted. The engine calls [`as_counted`] when a job is to
//! start, because Slurm accounts by what it has counted, whatever the request says.

use geometry::SHARD_MIB;
use geometry::size::display_gb;
use protocol::{Bandwidth, Isolation, MAX_SEATS, Request, RequestDefaults};
use topology::Pattern;

use crate::gres_list::Tres;

/// GPUs that a job asks Slurm for by Slurm's own options.
#[derive(Clone, Copy, Debug)]
pub struct SlurmAsks<'a> {
    /// The job's lists of GRES.
    pub tres: &'a Tres,
    /// True if the job gets its nodes, and so all their GPUs, for itself: by `--exclusive`, or by its partition.
    pub exclusive: bool,
}

/// The request with all filled in that follows from Slurm's counts and the site's defaults.
///
/// # Errors
///
/// The job asks Slurm for something that contradicts the request: a line for the user.
pub fn meaning(
    request: Request,
    slurm: SlurmAsks<'_>,
    defaults: &RequestDefaults,
) -> Result<Request, String> {
    let mut request = request;
    if request.isolation == Isolation::Auto {
        if let Some(implied) = request.implied_isolation() {
            request.isolation = implied;
        } else if !request.isolation_typed && !asks_for_whole_gpus(slurm) {
            request.isolation = defaults.isolation.clone();
        }
    }
    if request.isolation == Isolation::None {
        return Ok(request);
    }
    let request = with_slurms_own(with_defaults(request, defaults), slurm.tres)?;
    if slurm.exclusive {
        return exclusively(request);
    }
    has_its_ranks(&request, slurm.tres)?;
    Ok(request)
}

/// Tells whether the job asks for whole GPUs by Slurm's own options. The site's default isolation is not for such a job.
fn asks_for_whole_gpus(slurm: SlurmAsks<'_>) -> bool {
    slurm.exclusive || slurm.tres.gpu_entries().iter().any(|entry| entry.name == "gpu")
}

/// The request with the site's defaults for what it leaves open.
fn with_defaults(mut request: Request, defaults: &RequestDefaults) -> Request {
    let by_memory = match &request.isolation {
        // A job that states its run time on a size also states that it fits there.
        Isolation::Mig(profile) => profile.is_none() && request.times.is_empty(),
        Isolation::Mps | Isolation::Auto => true,
        // A default would be taken from every process, whatever it needs.
        Isolation::Tasks { .. } | Isolation::Whole | Isolation::None => false,
    };
    if by_memory && request.mem_mib.is_none() {
        request.mem_mib = defaults.gpu_mem_mib;
    }
    if request.isolation == Isolation::Mps && request.threads.is_none() {
        request.threads = defaults.mps_threads;
    }
    request
}

/// The request with the GPUs that the job asks Slurm for.
///
/// # Errors
///
/// They contradict the request: a line for the user.
fn with_slurms_own(mut request: Request, tres: &Tres) -> Result<Request, String> {
    let entries = tres.gpu_entries();
    let asked = in_options(&request);
    if let Some(shard) = entries.iter().find(|e| e.name == "shard") {
        return Err(format!(
            "{}={} cannot be combined with {asked}: Tessera asks for the shards itself; leave it out",
            shard.option, shard.text
        ));
    }
    let Some(first) = entries.first() else {
        return Ok(request);
    };
    if entries.iter().all(|entry| entry.count == 0) {
        let (option, text) = (first.option, &first.text);
        return Err(format!("{option}={text} cannot be combined with {asked}: it asks for no GPU; omit it"));
    }
    let per_node = || {
        let sum = entries.iter().filter(|e| e.per_node).fold(0, |n: u64, e| n.saturating_add(e.count));
        Some(u32::try_from(sum).unwrap_or(u32::MAX)).filter(|n| *n > 0)
    };
    match request.isolation {
        Isolation::Tasks { .. } => match per_node() {
            // Its processes do not talk to each other through the GPUs: others get the good links.
            Some(gpus) => {
                let bandwidth = request.bandwidth.or(Some(Bandwidth::Insensitive));
                Ok(Request { gpus: Some(gpus), bandwidth, ..request })
            }
            None => Err(format!(
                "{}={} cannot be combined with {asked}: count GPUs per node, by --gpus-per-node, or leave it out",
                first.option, first.text
            )),
        },
        // The job counts whole GPUs, so `auto` can only mean whole GPUs.
        Isolation::Auto | Isolation::Whole => {
            if request.instances > 1 {
                return Err(format!(
                    "{}={} cannot be combined with --gpu-instances={}: use one of them",
                    first.option, first.text, request.instances
                ));
            }
            request.isolation = Isolation::Whole;
            request.gpus = per_node();
            Ok(request)
        }
        _ => {
            let mig = matches!(request.isolation, Isolation::Mig(_)) && request.instances == 1;
            let several = if mig && first.per_node && first.count > 1 {
                format!(" for {0} instances use --gpu-instances={0} instead,", first.count)
            } else {
                String::new()
            };
            Err(format!(
                "{}={} cannot be combined with {asked}: it asks for whole GPUs; leave it out,{several} or use --gpu-isolation=whole",
                first.option, first.text
            ))
        }
    }
}

/// Checks that the ranks of an edge list are GPUs that the job has, if their number per node is known. A whole-GPU job
/// that asks Slurm for no GPUs has one. An exclusive job has all of its nodes' GPUs, so it is not checked.
///
/// # Errors
///
/// A line for the user.
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

/// The request of an exclusive job, which can only have whole GPUs. Slurm allocates no shared GRES to such a job, so one
/// that asks for a part of a GPU would wait for ever.
///
/// # Errors
///
/// The job asks for a part of a GPU: a line for the user.
fn exclusively(request: Request) -> Result<Request, String> {
    match request.isolation {
        Isolation::Auto if request.instances <= 1 => Ok(Request { isolation: Isolation::Whole, ..request }),
        Isolation::Whole | Isolation::None => Ok(request),
        _ => Err(not_exclusively(&request)),
    }
}

pub(crate) fn not_exclusively(request: &Request) -> String {
    format!(
        "--exclusive, or a partition of whole nodes (OverSubscribe=EXCLUSIVE), cannot be combined with {}: such a job gets every \
         GPU of its nodes as a whole; leave --exclusive out, take another partition, or use --gpu-isolation=whole",
        in_options(request)
    )
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

/// GPUs or shards that Slurm has counted for a job, per node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Whole GPUs; 0 if they were counted per job on several nodes, per socket or per task.
    Gpus(u64),
    /// Shards, nominal gigabytes of one GPU.
    Shards(u64),
}

/// A request as Slurm has counted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedRequest {
    /// The request to decide on; its isolation is never `none`.
    pub request: Request,
    /// True if it came from Tessera's options, so that only nodes that Tessera manages can serve it.
    pub managed: bool,
}

/// Derives the request to serve for a job with the request `asked` if Slurm has counted `counted` for it; `None`: Slurm's
/// own choice.
///
/// Once a submission was admitted, the two agree. They may differ for a job that was submitted without
/// `job_submit_tessera`. Then the count is right, because Slurm accounts by it: shards alone are an MPS share of as many
/// GB, GPUs alone are whole GPUs.
#[must_use]
pub fn as_counted(asked: Option<Request>, counted: Counted) -> Option<CountedRequest> {
    match (counted, asked) {
        (Counted::Gpus(_), Some(Request { isolation: Isolation::None, .. })) => None,
        (Counted::Gpus(count), Some(request @ Request { isolation: Isolation::Tasks { .. }, .. })) => {
            Some(CountedRequest { request: Request { gpus: some(count), ..request }, managed: true })
        }
        (Counted::Gpus(count), asked) => {
            let managed =
                matches!(&asked, Some(r) if matches!(r.isolation, Isolation::Whole | Isolation::Auto));
            let asked = asked.unwrap_or_else(|| Request::new(Isolation::Whole));
            let request = Request { isolation: Isolation::Whole, instances: 1, gpus: some(count), ..asked };
            Some(CountedRequest { request, managed })
        }
        (Counted::Shards(count), Some(request @ Request { isolation: Isolation::Tasks { .. }, .. })) => {
            let seats = u32::try_from(count).unwrap_or(MAX_SEATS).clamp(1, MAX_SEATS);
            Some(CountedRequest { request: Request { seats, gpus: None, ..request }, managed: true })
        }
        (Counted::Shards(_), Some(request))
            if matches!(request.isolation, Isolation::Mig(_) | Isolation::Mps | Isolation::Auto) =>
        {
            Some(CountedRequest { request, managed: true })
        }
        (Counted::Shards(count), _) => {
            let mem_mib = Some(count.max(1).saturating_mul(SHARD_MIB));
            Some(CountedRequest {
                request: Request { mem_mib, ..Request::new(Isolation::Mps) },
                managed: false,
            })
        }
    }
}

/// Tells whether what a request gets is chosen for it: its kind, or its instance.
#[must_use]
pub fn chooses(request: &Request) -> bool {
    matches!(request.isolation, Isolation::Auto | Isolation::Mig(None))
}

/// A number of GPUs as a request has it; more than anybody has stays more than anybody has.
fn some(count: u64) -> Option<u32> {
    (count > 0).then(|| u32::try_from(count).unwrap_or(u32::MAX))
}
