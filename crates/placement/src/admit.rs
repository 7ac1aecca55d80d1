//! Whether a node could ever satisfy a request, and what it counts for in Slurm.

use std::fmt;

use crate::decide::decide;
use geometry::size::{display_gb, shards};
use geometry::{JobId, Uid};
use node_state::report::{Constraint, Fate, Unsuitable};
use node_state::{Ask, Decision, Gpu, Kind, MigPolicy, Node, Policy};
use protocol::{Grant, Isolation, Request, ShareOn};

/// What a request counts for in Slurm's own books, per node. A relaxed bound: the placement engine is the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// `gres/shard`: nominal gigabytes, the fewest that any GPU of the node would give for it.
    Shards(u32),
    /// `gres/gpu`.
    Gpus(u32),
}

/// A request that a node could not satisfy even if it were empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Never {
    /// What rules it out.
    pub reason: String,
    /// The nearest thing that the node could give, and how to ask for it.
    pub nearest: Option<String>,
}

impl fmt::Display for Never {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        self.nearest.as_ref().map_or(Ok(()), |nearest| write!(f, "; {nearest}"))
    }
}

/// Whether `node` could satisfy the request when empty, and what that counts for. What is on it does not matter.
/// `same_gpu_only` as in [`Ask`].
///
/// # Errors
///
/// It could not: why, and what it could give instead.
pub fn admits_ever(
    node: &Node,
    request: &Request,
    policy: &Policy,
    same_gpu_only: bool,
) -> Result<Admission, Never> {
    let node = node.emptied();
    let try_one = |request: &Request| {
        let ask = Ask { same_gpu_only, ..Ask::new(JobId(0), Uid(0), request.clone()) };
        decide(&node, &ask, policy)
    };
    let whole = request.gpus.unwrap_or(1);
    match request.isolation {
        Isolation::None => Ok(Admission::Gpus(whole)),
        Isolation::Auto => {
            let decision = try_one(request);
            if decision.chosen.is_none() {
                return Err(never(&node, request, same_gpu_only, &decision, &try_one));
            }
            let fits = |kind| decision.report.kinds.iter().any(|k| k.kind == kind && k.outcome.is_ok());
            let partial = [Kind::Mig, Kind::Mps].into_iter().filter(|k| fits(*k));
            let fewest = partial.filter_map(|kind| fewest_shards(&node, kind, request, policy)).min();
            Ok(fewest.map_or(Admission::Gpus(whole), Admission::Shards))
        }
        Isolation::Mig(_) | Isolation::Mps | Isolation::Whole => {
            let decision = try_one(request);
            let kind = match decision.chosen {
                None => return Err(never(&node, request, same_gpu_only, &decision, &try_one)),
                Some(Grant::Whole(_)) => return Ok(Admission::Gpus(whole)),
                Some(Grant::Mig(_)) => Kind::Mig,
                Some(Grant::Mps { .. }) => Kind::Mps,
            };
            let fewest = fewest_shards(&node, kind, request, policy);
            Ok(Admission::Shards(fewest.unwrap_or(1)))
        }
    }
}

/// The fewest shards that any of the node's GPUs would count for the request. A GPU never counts more than it has.
fn fewest_shards(node: &Node, kind: Kind, request: &Request, policy: &Policy) -> Option<u32> {
    let per_gpu = node.gpus.iter().enumerate().filter_map(|(i, gpu)| {
        let alone = Node { gpus: vec![gpu.clone()], links: topology::LinkMatrix::uniform(1, 0.0) };
        let isolation = match (&request.isolation, kind) {
            (Isolation::Mig(profile), _) => Isolation::Mig(profile.clone()),
            (_, Kind::Mig) => Isolation::Mig(None),
            _ => Isolation::Mps,
        };
        // Nodes are mostly of one model: ask each model once.
        if node.gpus[..i].iter().any(|g| std::ptr::eq(g.model, gpu.model) && g.policy == gpu.policy) {
            return None;
        }
        let request = Request { isolation, instances: 1, ..request.clone() };
        match decide(&alone, &Ask::new(JobId(0), Uid(0), request), policy).chosen? {
            Grant::Mig(specs) => specs
                .first()
                .and_then(|s| gpu.model.profile_by_id(s.profile))
                .map(|p| gpu.model.profile_shards(p)),
            Grant::Mps { on: ShareOn::Gpu(_) | ShareOn::Instance(_), mem_mib, .. } => {
                Some(shards(mem_mib).min(gpu.model.shards()))
            }
            Grant::Whole(_) => None,
        }
    });
    per_gpu.min().map(|one| one.saturating_mul(request.instances.max(1)))
}

fn never(
    node: &Node,
    request: &Request,
    same_gpu_only: bool,
    decision: &Decision,
    try_one: &impl Fn(&Request) -> Decision,
) -> Never {
    if node.gpus.is_empty() {
        return Never { reason: "the node has no GPUs".to_owned(), nearest: None };
    }
    if decision.report.kinds.iter().any(|k| k.outcome == Err(Some(Unsuitable::NoMemoryNamed)))
        && request.isolation == Isolation::Mps
    {
        let nearest = Some("ask --gpu-mem=SIZE with it".to_owned());
        return Never { reason: "a share needs a memory size".to_owned(), nearest };
    }
    if request.isolation == Isolation::Mps && request.instances > 1 {
        let nearest = Some("ask --gpu-isolation=mig for several".to_owned());
        return Never { reason: "a job has one share per node, not several instances".to_owned(), nearest };
    }
    fewer(request, same_gpu_only, try_one).unwrap_or_else(|| by_constraint(node, request, decision))
}

/// Where only the number is too large: the largest that fits.
fn fewer(request: &Request, same_gpu_only: bool, try_one: &impl Fn(&Request) -> Decision) -> Option<Never> {
    let counts_gpus = request.gpus.is_some() || request.isolation == Isolation::Whole;
    let (asked, option, what) = if counts_gpus {
        (request.gpus.unwrap_or(1), "--gpus-per-node", "GPUs")
    } else {
        (request.instances, "--gpu-instances", "such instances")
    };
    let with = |n: u32| {
        let changed = if counts_gpus {
            Request { gpus: Some(n), ..request.clone() }
        } else {
            Request { instances: n, ..request.clone() }
        };
        try_one(&changed).chosen.is_some()
    };
    if asked <= 1 || !with(1) {
        return None;
    }
    // Whatever fits n fits fewer: bisect. No node has 1024 of anything.
    let (mut fits, mut not) = (1, asked.min(1024));
    while not - fits > 1 {
        let middle = fits + (not - fits) / 2;
        if with(middle) { fits = middle } else { not = middle }
    }
    let place = match same_gpu_only && !counts_gpus {
        true => "one GPU, which is where this Slurm puts all that a job has on a node",
        false => "an empty node",
    };
    Some(Never {
        reason: format!("{asked} {what} do not fit on {place}, {fits} do"),
        nearest: Some(format!("ask {option}={fits} or less")),
    })
}

/// Where one instance, share or GPU is too much already: the constraint that comes nearest, over all GPUs.
fn by_constraint(node: &Node, request: &Request, decision: &Decision) -> Never {
    let ruled = decision.report.weighed.iter().filter_map(|c| match c.fate {
        Fate::Ruled(constraint) => Some((c, constraint)),
        _ => None,
    });
    let nearest = ruled.max_by_key(|(c, constraint)| (nearness(*constraint), std::cmp::Reverse(c.gpu)));
    let Some((candidate, constraint)) = nearest else {
        return Never { reason: decision.why(), nearest: None };
    };
    let Some(gpu) = node.gpus.get(usize::from(candidate.gpu.0)) else {
        return Never { reason: decision.why(), nearest: None };
    };
    let model = gpu.model;
    let names = || {
        let names: Vec<&str> = model.profiles.iter().map(|p| p.name.as_str()).collect();
        names.join(", ")
    };
    let (reason, nearest) = match constraint {
        Constraint::NoSuchProfile(_) => {
            let asked = match &request.isolation {
                Isolation::Mig(None) if !request.times.is_empty() => request.listed(),
                other => other.to_string(),
            };
            (format!("{} has no profile for {asked}", model.key), Some(format!("it has {}", names())))
        }
        Constraint::TooLittleMemory { need, has } => too_little_memory(gpu, request, need, has),
        Constraint::TooFewSms { need, has } => {
            let reason =
                format!("no profile of {} that fits has {need} SMs, the largest has {has}", model.key);
            (reason, Some("ask fewer --gpu-threads".to_owned()))
        }
        Constraint::MigOff => (
            format!("the node's {} are never in MIG mode", model.key),
            Some("ask --gpu-isolation=mps or whole".to_owned()),
        ),
        Constraint::MigAlways => {
            let largest = largest_instance(gpu);
            (
                format!("the node's {} are always in MIG mode", model.key),
                Some(format!("{largest}; ask --gpu-isolation=mig")),
            )
        }
        other => (other.to_string(), None),
    };
    Never { reason, nearest }
}

/// The constraints that say most about what could be had instead.
fn nearness(constraint: Constraint) -> (u8, u64) {
    match constraint {
        Constraint::TooLittleMemory { has, .. } => (3, has),
        Constraint::TooFewSms { has, .. } => (2, u64::from(has)),
        Constraint::MigAlways | Constraint::MigOff => (1, 0),
        _ => (0, 0),
    }
}

fn largest_instance(gpu: &Gpu) -> String {
    let base = gpu.model.profiles.iter().filter(|p| !p.is_variant());
    base.max_by_key(|p| (p.memory_mib, p.sm)).map_or_else(String::new, |p| {
        format!("largest instance on {} is {} with {}", gpu.model.key, p.name, display_gb(p.memory_mib))
    })
}

fn too_little_memory(gpu: &Gpu, request: &Request, need: u64, has: u64) -> (String, Option<String>) {
    let model = gpu.model;
    if let Isolation::Mig(Some(name)) = &request.isolation {
        let larger = model.profiles.iter().find(|p| !p.is_variant() && p.memory_mib >= need);
        let nearest = larger.map_or_else(
            || format!("ask --gpu-mem={} or less", size_option(has)),
            |p| format!("{} has {}; ask --gpu-isolation=mig:{}", p.name, display_gb(p.memory_mib), p.name),
        );
        return (format!("{name} holds {}, {} asked", display_gb(has), display_gb(need)), Some(nearest));
    }
    let what = if gpu.policy == MigPolicy::Off {
        format!("{} has {} for jobs", model.key, display_gb(model.usable_mib()))
    } else {
        largest_instance(gpu)
    };
    (what, Some(format!("ask --gpu-mem={} or less", size_option(has))))
}

/// The largest round decimal size within `mib`, as a user would type it.
fn size_option(mib: u64) -> String {
    let bytes = mib * 1_048_576;
    let gb = bytes / 1_000_000_000;
    if gb > 0 { format!("{gb}G") } else { format!("{}M", bytes / 1_000_000) }
}
