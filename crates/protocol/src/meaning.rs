//! What a request means once Slurm's own counts and the site's defaults are known.
//!
//! This is the one place that says so. `sbatch` checks options against each other and calls [`implied`]; slurmctld
//! calls [`meaning`] when a job is submitted, so does `tessera explain`; and the engine calls [`as_counted`] when a job
//! is to start, because Slurm accounts by what it has counted, whatever the request says.

use geometry::size::display_gb;
use topology::Pattern;

use crate::gres_list::Tres;
use crate::request::{Isolation, Request};

/// What holds where a job does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestDefaults {
    /// The isolation of a job that names none and asks Slurm for no GPUs.
    pub isolation: Isolation,
    /// Memory per instance or share, MiB; `None`: the job must say, or any will do.
    pub gpu_mem_mib: Option<u64>,
    /// Threads of an MPS share, percent; `None`: as large a part as its part of the memory.
    pub mps_threads: Option<u8>,
}

/// What a job asks of Slurm itself.
#[derive(Clone, Copy, Debug)]
pub struct SlurmAsks<'a> {
    /// Its lists of GRES.
    pub tres: &'a Tres,
    /// It gets its nodes, and so their GPUs, for itself: `--exclusive`, or a partition that is so.
    pub exclusive: bool,
}

/// The isolation that the other parts of a request imply where the user names none, or `auto`: a moldable job, and one
/// that wants a certain place, is one MIG instance.
#[must_use]
pub fn implied(request: &Request) -> Option<Isolation> {
    (request.is_moldable() || request.place.is_some()).then_some(Isolation::Mig(None))
}

/// The request with everything filled in that follows from Slurm's counts and the site's defaults.
///
/// # Errors
///
/// What Slurm was asked for contradicts the request: a line for the user.
pub fn meaning(
    request: Request,
    slurm: SlurmAsks<'_>,
    defaults: &RequestDefaults,
) -> Result<Request, String> {
    let mut request = request;
    if request.isolation == Isolation::Auto {
        if let Some(implied) = implied(&request) {
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

/// Whether the job says by Slurm's own means that it wants whole GPUs: the site's default is for those that do not say.
fn asks_for_whole_gpus(slurm: SlurmAsks<'_>) -> bool {
    slurm.exclusive || slurm.tres.gpu_entries().iter().any(|entry| entry.name == "gpu")
}

/// The request with what the site says where the job does not.
fn with_defaults(mut request: Request, defaults: &RequestDefaults) -> Request {
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
    let asked = in_options(&request);
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
            in_options(&request)
        )),
    }
}

/// The request as the options a user types, and what was made of them.
#[must_use]
pub fn in_options(request: &Request) -> String {
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

/// What Slurm has counted for a job per node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Whole GPUs; 0 where they were counted per job on several nodes, per socket or task.
    Gpus(u64),
    /// Shards, nominal gigabytes of one GPU.
    Shards(u64),
}

/// A request as Slurm has counted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedRequest {
    /// Its isolation is never `none`.
    pub request: Request,
    /// It came from Tessera's options: nodes that Tessera does not manage cannot serve it.
    pub managed: bool,
}

/// MiB in a shard, rounded up: one nominal, decimal GB.
pub const SHARD_MIB: u64 = 954;

/// What a job gets whose request is `asked` and for which Slurm has counted this; `None`: it wants Slurm's own choice.
///
/// The two agree once a submission was admitted. They may not: a job submitted without `job_submit_tessera`, or a record
/// from before that was installed. Then the count is right, because Slurm accounts by it: shards alone are an MPS share
/// of as many GB, GPUs alone are whole ones.
#[must_use]
pub fn as_counted(asked: Option<Request>, counted: Counted) -> Option<CountedRequest> {
    match (counted, asked) {
        (Counted::Gpus(_), Some(Request { isolation: Isolation::None, .. })) => None,
        (Counted::Gpus(count), asked) => {
            let managed =
                matches!(&asked, Some(r) if matches!(r.isolation, Isolation::Whole | Isolation::Auto));
            let asked = asked.unwrap_or_else(|| Request::new(Isolation::Whole));
            let gpus = u32::try_from(count).ok().filter(|n| *n > 0);
            let request = Request { isolation: Isolation::Whole, instances: 1, gpus, ..asked };
            Some(CountedRequest { request, managed })
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
