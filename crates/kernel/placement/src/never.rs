//! Why a node could never satisfy a request, and what it could give instead.

use std::cmp::Reverse;
use std::fmt;

use decision_report::Decision;
use decision_report::report::{Constraint, Fate, Unsuitable};
use geometry::size::display_gb;
use geometry::{Model, NoMig, counted};
use node_state::{Gpu, MigPolicy, Node, Purpose};
use protocol::{Isolation, Request};

/// A request that a node could not satisfy even if it were empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Never {
    /// The constraint that rules the request out.
    pub reason: String,
    /// The nearest thing that the node could give, and how to ask for it.
    pub nearest: Option<String>,
    /// The most memory that it could give instead, MiB; 0 where memory is not what rules the request out.
    pub gives_mib: u64,
}

impl fmt::Display for Never {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        self.nearest.as_ref().map_or(Ok(()), |nearest| write!(f, "; {nearest}"))
    }
}

/// Explains why `decision`, made for the emptied `node`, chose nothing. `try_one` decides another request on that node.
pub(crate) fn never(
    node: &Node,
    request: &Request,
    decision: &Decision,
    try_one: &impl Fn(&Request) -> Decision,
) -> Never {
    if node.gpus.is_empty() {
        return Never { reason: "the node has no GPUs".to_owned(), nearest: None, gives_mib: 0 };
    }
    let needs_size = request.isolation == Isolation::Mps || request.compute_name().is_some();
    if needs_size && decision.report.kinds.iter().any(|k| k.outcome == Err(Some(Unsuitable::NoMemoryNamed))) {
        let nearest = Some("use --gpu-mem=SIZE with it".to_owned());
        let what = if request.isolation == Isolation::Mps { "share" } else { "compute instance" };
        return Never { reason: format!("a {what} needs a memory size"), nearest, gives_mib: 0 };
    }
    if decision.report.kinds.iter().any(|k| k.outcome == Err(Some(Unsuitable::NoPool)))
        && matches!(request.isolation, Isolation::Tasks { .. })
    {
        let nearest = Some("use --gpu-isolation=mps with --gpu-mem=SIZE for a share".to_owned());
        return Never {
            reason: "this site has no pool of GPU tasks ([tasks] in tessera.toml)".to_owned(),
            nearest,
            gives_mib: 0,
        };
    }
    if request.isolation == Isolation::Mps && request.instances > 1 {
        let nearest = Some("use --gpu-isolation=mig for several".to_owned());
        return Never {
            reason: "a job has one share per node, not several instances".to_owned(),
            nearest,
            gives_mib: 0,
        };
    }
    fewer(request, try_one).unwrap_or_else(|| by_constraint(node, request, decision))
}

/// No node has more of anything: 16 GPUs with 7 instances each.
const MOST_TRIED: u32 = 128;

/// Finds the largest number that fits, if only the number asked for is too large.
fn fewer(request: &Request, try_one: &impl Fn(&Request) -> Decision) -> Option<Never> {
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
    // A node that has room for n instances need not have room for n - 1, because each GPU must carry the same number.
    let fits = (2..asked.min(MOST_TRIED)).rev().find(|n| with(*n)).unwrap_or(1);
    let place = if counts_gpus {
        "an empty node"
    } else {
        "an empty node, on which each GPU must carry the same number"
    };
    let verb = if fits == 1 { "does" } else { "do" };
    Some(Never {
        reason: format!("{asked} {what} do not fit on {place}, {fits} {verb}"),
        nearest: Some(format!("use {option}={fits} or less")),
        gives_mib: 0,
    })
}

/// Explains a request of which a single instance, share or GPU is already too much: of all GPUs' constraints it names the
/// one from which most can be told about what would fit.
fn by_constraint(node: &Node, request: &Request, decision: &Decision) -> Never {
    let ruled = decision.report.weighed.iter().filter_map(|c| match c.fate {
        Fate::Ruled(constraint) => Some((c, constraint)),
        _ => None,
    });
    let nearest = ruled.max_by_key(|(c, constraint)| (nearness(*constraint), Reverse(c.gpu)));
    let Some((candidate, constraint)) = nearest else {
        return Never { reason: decision.why(), nearest: None, gives_mib: 0 };
    };
    let Some(gpu) = node.gpus.get(usize::from(candidate.gpu.0)) else {
        return Never { reason: decision.why(), nearest: None, gives_mib: 0 };
    };
    let model = gpu.model;
    let names = || {
        let names: Vec<&str> = model.profiles.iter().map(|p| p.name.as_str()).collect();
        names.join(", ")
    };
    let (reason, nearest) = match constraint {
        Constraint::NoSuchProfile(_) if model.profiles.is_empty() => {
            (without_mig(model), Some(NO_MIG_HINT.to_owned()))
        }
        Constraint::NoSuchProfile(_) => {
            let asked = match &request.isolation {
                Isolation::Mig(None) if !request.times.is_empty() => request.listed(),
                other => other.to_string(),
            };
            (format!("{} has no profile for {asked}", model.key), Some(format!("it has {}", names())))
        }
        Constraint::BeyondLimit => (constraint.to_string(), Some(LIMIT_HINT.to_owned())),
        Constraint::TooLittleMemory { need, has } => too_little_memory(gpu, request, need, has),
        Constraint::TooFewSms { need, has } => {
            let reason =
                format!("no profile of {} that fits has {need} SMs, the largest has {has}", model.key);
            (reason, Some("use a smaller --gpu-sms".to_owned()))
        }
        Constraint::TooFewSeats { need, has } => {
            let (tasks, seats) = (counted(request.seats, "Slurm task"), counted(has, "seat"));
            let reason =
                format!("{tasks} per node, and {} has at most {seats} where {need} are needed", model.key);
            (reason, Some("use fewer tasks per node, or whole GPUs with --gpus-per-node".to_owned()))
        }
        Constraint::NoMig => (without_mig(model), Some(NO_MIG_HINT.to_owned())),
        Constraint::MigOff => {
            (format!("the node's {} are never in MIG mode", model.key), Some(NO_MIG_HINT.to_owned()))
        }
        Constraint::MigAlways => {
            let largest = largest_instance(gpu);
            (
                format!("the node's {} are always in MIG mode", model.key),
                Some(format!("{largest}; use --gpu-isolation=mig")),
            )
        }
        Constraint::KeptFor(purpose) => {
            (format!("the node's {} are {}", model.key, purpose.words()), purpose_hint(purpose))
        }
        other => (other.to_string(), None),
    };
    let gives_mib = if let Constraint::TooLittleMemory { has, .. } = constraint { has } else { 0 };
    Never { reason, nearest, gives_mib }
}

const LIMIT_HINT: &str = "ask for less, or name a profile that is allowed";

/// Suggests a request for GPUs that the site keeps for something else.
fn purpose_hint(purpose: Purpose) -> Option<String> {
    let ask = match purpose {
        Purpose::Any => return None,
        Purpose::Whole => "use --gpu-isolation=whole",
        Purpose::Shares => "use --gpu-isolation=mps with --gpu-mem=SIZE",
        Purpose::Static => "use --gpu-isolation=mig",
        Purpose::Slurm => "use --gres alone, without Tessera's options",
    };
    Some(ask.to_owned())
}

/// Suggestion for nodes on which no instance can be had.
const NO_MIG_HINT: &str = "use --gpu-isolation=mps or whole";

fn without_mig(model: &Model) -> String {
    match model.mig {
        Err(NoMig::Unknown) => format!("the places of MIG instances on {} are not known", model.key),
        _ => format!("{} has no MIG", model.key),
    }
}

/// Rank of a constraint by how much it tells about what the node could give instead; larger is better.
fn nearness(constraint: Constraint) -> (u8, u64) {
    match constraint {
        Constraint::TooLittleMemory { has, .. } => (3, has),
        Constraint::TooFewSms { has, .. } | Constraint::TooFewSeats { has, .. } => (2, u64::from(has)),
        Constraint::MigAlways | Constraint::MigOff | Constraint::NoMig => (1, 0),
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
            || format!("use --gpu-mem={} or less", size_option(has)),
            |p| format!("{} has {}; use --gpu-isolation=mig:{}", p.name, display_gb(p.memory_mib), p.name),
        );
        return (format!("{name} has {}, not {}", display_gb(has), display_gb(need)), Some(nearest));
    }
    let what = match (&gpu.policy, &request.isolation) {
        (MigPolicy::Off, _) => format!("{} has {} for jobs", model.key, display_gb(model.usable_mib())),
        (_, Isolation::Whole) => format!("{} has {} for jobs", model.key, display_gb(has)),
        _ => largest_instance(gpu),
    };
    (what, Some(format!("use --gpu-mem={} or less", size_option(has))))
}

/// The largest whole number of decimal gigabytes (below one, megabytes) within `mib`, as a user would type it.
fn size_option(mib: u64) -> String {
    let bytes = mib * 1_048_576;
    let gb = bytes / 1_000_000_000;
    if gb > 0 { format!("{gb}G") } else { format!("{}M", bytes / 1_000_000) }
}
