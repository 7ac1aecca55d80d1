//! A job's placement as a string: what it gets on each of its nodes.
//!
//! `v1 job=12;n1=mig:3/2g.10gb@4,3/2g.10gb@0;n2=mps:1/mem=2862/threads=25;n3=whole:0,3,4`. A share inside an instance is
//! `mps:0/1g.5gb@2/mem=2862/threads=25`. A compute instance is `mig:3/7g.40gb@0/4c@0/mem=19073`: the GPU instance, then the
//! compute slices within it, then the memory that the job states. `/cap=190` at the end of a node's grant, whatever its
//! kind, is the power cap of each of the job's GPUs there, in watts. GPUs have Slurm's numbers.
//!
//! Seats for GPU tasks name every device that the job may use, and how many of its seats are there:
//! `tasks:0/1g.6gb@0*2,0/1g.6gb@1*0/mem=2862`, `tasks:1*4/probes` for a GPU without MIG, and `tasks:whole*8:0,3` for whole
//! GPUs of its own with eight seats together.

use std::collections::HashSet;

use geometry::{GpuIndex, JobId, Model, Slice};

use crate::grant::{ComputeSpec, Grant, MigSpec, NodeGrant, PoolSeats, ShareOn, TaskDevices, TaskGrant};
use crate::request::MAX_SEATS;
use crate::strict::{WireError, bad, number, versioned};

/// Name of the environment variable that holds the placement.
pub const PLACEMENT_ENV: &str = "TESSERA_PLACEMENT";

/// A job's placement: what it gets on each of its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPlacement {
    /// The job that the decision was made for. A copy of the string in another job's environment grants nothing.
    pub job: JobId,
    /// Name of each node and its grant, in the order decided.
    pub nodes: Vec<(String, NodeGrant)>,
}

impl JobPlacement {
    /// Gives the job's grant on `node`; `None` if that is not one of its nodes.
    #[must_use]
    pub fn on(&self, node: &str) -> Option<&NodeGrant> {
        self.nodes.iter().find(|(name, _)| name == node).map(|(_, grant)| grant)
    }
}

/// Gives the model of a node's GPU, which turns profile names into ids; `None` for a GPU that the node does not have.
pub type ModelOf<'a> = &'a dyn Fn(&str, GpuIndex) -> Option<&'static Model>;

/// Writes a placement. An instance whose profile `model_of` does not know is written with its id, `#9`, which
/// [`parse_placement`] refuses.
#[must_use]
pub fn encode_placement(placement: &JobPlacement, model_of: ModelOf<'_>) -> String {
    let mut out = format!("v1 job={}", placement.job);
    for (node, grant) in &placement.nodes {
        out.push(';');
        out.push_str(node);
        out.push('=');
        out.push_str(&encode_grant(grant, &|gpu| model_of(node, gpu)));
    }
    out
}

/// Writes what a job gets on one node: `mig:3/2g.10gb@4`, with a cap `mig:3/2g.10gb@4/cap=190`.
#[must_use]
pub fn encode_grant(given: &NodeGrant, model_of: &dyn Fn(GpuIndex) -> Option<&'static Model>) -> String {
    let grant = encode_uncapped(&given.grant, model_of);
    given.cap_w.map_or(grant.clone(), |watts| format!("{grant}{CAP}{watts}"))
}

/// Stands before a power cap.
const CAP: &str = "/cap=";
/// Highest power cap that is read, W; no GPU takes as much.
pub const MAX_CAP_W: u16 = 10_000;

fn encode_uncapped(grant: &Grant, model_of: &dyn Fn(GpuIndex) -> Option<&'static Model>) -> String {
    let spec = |s: &MigSpec| {
        let profile = model_of(s.gpu).and_then(|m| m.profile_by_id(s.profile));
        match profile {
            Some(p) => format!("{}/{}@{}", s.gpu, p.name, s.start),
            None => format!("{}/#{}@{}", s.gpu, s.profile, s.start),
        }
    };
    let device = |on: &ShareOn| match on {
        ShareOn::Gpu(gpu) => gpu.to_string(),
        ShareOn::Instance(s) => spec(s),
    };
    let list = |gpus: &[GpuIndex]| gpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    match grant {
        Grant::Mig(specs) => format!("mig:{}", specs.iter().map(spec).collect::<Vec<_>>().join(",")),
        Grant::Compute { within, part: ComputeSpec { slices, start }, mem_mib } => {
            format!("mig:{}/{slices}c@{start}/mem={mem_mib}", spec(within))
        }
        Grant::Mps { on, mem_mib, threads } => {
            let on = device(on);
            format!("mps:{on}/mem={mem_mib}/threads={threads}")
        }
        Grant::Tasks(tasks) => {
            let on = match &tasks.on {
                TaskDevices::Pool(pool) => {
                    let one = |s: &PoolSeats| format!("{}*{}", device(&s.on), s.seats);
                    pool.iter().map(one).collect::<Vec<_>>().join(",")
                }
                TaskDevices::Own { gpus, seats } => format!("whole*{seats}:{}", list(gpus)),
            };
            let mem = tasks.mem_mib.map_or_else(String::new, |mem| format!("/mem={mem}"));
            format!("tasks:{on}{mem}{}", if tasks.probes { PROBES } else { "" })
        }
        Grant::Whole(gpus) => format!("whole:{}", list(gpus)),
    }
}

/// Reads a placement as [`encode_placement`] writes it.
///
/// # Errors
///
/// A part is malformed, `model_of` does not know a GPU or profile, or a node is named twice; the error shows the first
/// such part.
pub fn parse_placement(text: &str, model_of: ModelOf<'_>) -> Result<JobPlacement, WireError> {
    let mut parts = versioned(text)?.split(';');
    let Some(job) = parts.next().and_then(|p| p.strip_prefix("job=")) else { return bad("no job", text) };
    parse_nodes(JobId(number(job, 1, u64::from(u32::MAX))?), parts, model_of)
}

/// Reads a job's nodes and what it gets on each: `n1=mig:3/2g.10gb@4`.
pub(crate) fn parse_nodes<'a>(
    job: JobId,
    parts: impl Iterator<Item = &'a str>,
    model_of: ModelOf<'_>,
) -> Result<JobPlacement, WireError> {
    let mut nodes: Vec<(String, NodeGrant)> = Vec::new();
    let mut names = HashSet::new();
    for part in parts {
        let Some((node, grant)) = part.split_once('=') else { return bad("not node=grant", part) };
        if node.is_empty() || !names.insert(node) {
            return bad("no node or one named twice", part);
        }
        nodes.push((node.to_owned(), parse_grant(grant, &|gpu| model_of(node, gpu))?));
    }
    Ok(JobPlacement { job, nodes })
}

/// Reads what a job gets on one node, as [`encode_grant`] writes it.
///
/// # Errors
///
/// As [`parse_placement`].
pub fn parse_grant(
    text: &str,
    model_of: &dyn Fn(GpuIndex) -> Option<&'static Model>,
) -> Result<NodeGrant, WireError> {
    let (grant, cap_w) = match text.rsplit_once(CAP) {
        Some((grant, watts)) => (grant, Some(number(watts, 1, MAX_CAP_W.into())?)),
        None => (text, None),
    };
    Ok(NodeGrant { grant: parse_uncapped(grant, model_of)?, cap_w })
}

fn parse_uncapped(
    text: &str,
    model_of: &dyn Fn(GpuIndex) -> Option<&'static Model>,
) -> Result<Grant, WireError> {
    if let Some(list) = text.strip_prefix("mig:") {
        if let Some((compute, mem)) = list.rsplit_once("/mem=") {
            return parse_compute(compute, mem, model_of);
        }
        let specs: Vec<MigSpec> =
            list.split(',').map(|s| parse_spec(s, model_of)).collect::<Result<_, _>>()?;
        return Ok(Grant::Mig(specs));
    }
    if let Some(list) = text.strip_prefix("whole:") {
        return Ok(Grant::Whole(list.split(',').map(|g| parse_gpu(g, model_of)).collect::<Result<_, _>>()?));
    }
    if let Some(tasks) = text.strip_prefix("tasks:") {
        return parse_tasks(tasks, model_of).map(Grant::Tasks);
    }
    let Some(share) = text.strip_prefix("mps:") else { return bad("unknown kind of grant", text) };
    let Some((rest, threads)) = share.rsplit_once("/threads=") else { return bad("no threads", share) };
    let Some((on, mem)) = rest.rsplit_once("/mem=") else { return bad("no memory", share) };
    let on = parse_device(on, model_of)?;
    Ok(Grant::Mps { on, mem_mib: number(mem, 1, 1 << 20)?, threads: number(threads, 1, 100)? })
}

/// Reads `3/7g.40gb@0/4c@0` and the memory behind it.
fn parse_compute(
    text: &str,
    mem: &str,
    model_of: &dyn Fn(GpuIndex) -> Option<&'static Model>,
) -> Result<Grant, WireError> {
    let Some((within, part)) = text.rsplit_once('/') else { return bad("no compute slices", text) };
    let Some((slices, start)) = part.split_once("c@") else { return bad("no compute slices", part) };
    let within = parse_spec(within, model_of)?;
    let part_read = ComputeSpec { slices: number(slices, 1, 15)?, start: Slice(number(start, 0, 15)?) };
    let profile = model_of(within.gpu).and_then(|m| m.profile_by_id(within.profile));
    let size = profile.and_then(|p| p.compute(part_read.slices));
    if size.is_none_or(|size| !size.starts.contains(&part_read.start)) {
        return bad("a compute instance this GPU instance does not have", part);
    }
    Ok(Grant::Compute { within, part: part_read, mem_mib: number(mem, 1, 1 << 20)? })
}

/// Ends the grant of a job whose programs ask for their tasks themselves.
const PROBES: &str = "/probes";

fn parse_tasks(
    text: &str,
    model_of: &dyn Fn(GpuIndex) -> Option<&'static Model>,
) -> Result<TaskGrant, WireError> {
    let rest = text.strip_suffix(PROBES);
    let probes = rest.is_some();
    let (devices, mem) = match rest.unwrap_or(text).rsplit_once("/mem=") {
        Some((devices, mem)) => (devices, Some(number(mem, 1, 1 << 20)?)),
        None => (rest.unwrap_or(text), None),
    };
    let seats = |text: &str, least| number(text, least, u64::from(MAX_SEATS));
    let on = match devices.strip_prefix("whole*") {
        Some(own) => {
            let Some((n, list)) = own.split_once(':') else { return bad("no list of GPUs", own) };
            let gpus = list.split(',').map(|g| parse_gpu(g, model_of)).collect::<Result<_, _>>()?;
            TaskDevices::Own { gpus, seats: seats(n, 1)? }
        }
        None => {
            let one = |part: &str| match part.split_once('*') {
                Some((on, n)) => Ok(PoolSeats { on: parse_device(on, model_of)?, seats: seats(n, 0)? }),
                None => bad("no seats", part),
            };
            TaskDevices::Pool(devices.split(',').map(one).collect::<Result<_, _>>()?)
        }
    };
    Ok(TaskGrant { on, mem_mib: mem, probes })
}

fn parse_device(
    text: &str,
    model_of: &dyn Fn(GpuIndex) -> Option<&'static Model>,
) -> Result<ShareOn, WireError> {
    Ok(if text.contains('/') {
        ShareOn::Instance(parse_spec(text, model_of)?)
    } else {
        ShareOn::Gpu(parse_gpu(text, model_of)?)
    })
}

fn parse_gpu(
    text: &str,
    model_of: &dyn Fn(GpuIndex) -> Option<&'static Model>,
) -> Result<GpuIndex, WireError> {
    let gpu = GpuIndex(number(text, 0, u64::from(u16::MAX))?);
    if model_of(gpu).is_none() {
        return bad("a GPU this node does not have", text);
    }
    Ok(gpu)
}

fn parse_spec(
    text: &str,
    model_of: &dyn Fn(GpuIndex) -> Option<&'static Model>,
) -> Result<MigSpec, WireError> {
    let Some((gpu, instance)) = text.split_once('/') else { return bad("no profile", text) };
    let Some((profile, start)) = instance.split_once('@') else { return bad("no start", text) };
    let gpu = parse_gpu(gpu, model_of)?;
    let start = Slice(number(start, 0, 15)?);
    let known = model_of(gpu).and_then(|m| m.profile(profile)).filter(|p| p.starts.contains(&start));
    match known {
        Some(profile) => Ok(MigSpec { gpu, profile: profile.id, start }),
        None => bad("a profile or start this GPU does not have", text),
    }
}
