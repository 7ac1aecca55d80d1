//! The meaning of a request, once Slurm's own counts and the site's defaults are known.
//!
//! This is the one place that decides it. `sbatch` checks options against each other and calls [`Request::implied_isolation`]. slurmctld
//! and `tessera explain` call [`meaning`] when a job is submitted. The engine calls [`as_counted`](site_limits::counted::as_counted) when
//! a job is to start, because Slurm accounts by what it has counted, whatever the request says.

use protocol::{Bandwidth, Isolation, Request, RequestDefaults};
use site_limits::in_options;
use site_limits::tres::Tres;
use topology::Pattern;

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
    let edges = mapa::edges_of(pattern, usize::try_from(gpus).unwrap_or(usize::MAX));
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
