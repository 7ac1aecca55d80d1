//! Decisions as text: one line for users, every candidate for administrators.

use std::collections::BTreeMap;
use std::fmt;

use crate::ask::Kind;
use crate::decide::Decision;
use crate::decision::{Grant, MigSpec, ShareOn};
use crate::ids::{GpuIndex, ProfileId};
use crate::report::{
    Candidate, Constraint, KindTried, Report, ShareClass, ShareScore, Starts, Takes, Unsuitable, Verdict,
};
use crate::score::Cost;
use crate::size::display_gb;

impl Decision {
    /// One line for the user: what was chosen and why, or what stands in the way.
    #[must_use]
    pub fn why(&self) -> String {
        let Some(grant) = &self.chosen else { return self.report.why_not() };
        let what = self.report.describe(grant);
        let why = match (grant, self.report.best) {
            (Grant::Mig(specs), Some(Verdict::Costs(cost))) => self.report.why_mig(specs, cost),
            (_, Some(Verdict::Share(score))) => why_share(score),
            (Grant::Whole(gpus), Some(Verdict::Links { mbps, free, .. })) => {
                why_whole(gpus.len(), mbps, free, self.report.inexact)
            }
            _ => String::new(),
        };
        let others = self.report.other_kinds();
        format!("{what}: {why}{others}")
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.why())?;
        for tried in &self.report.kinds {
            writeln!(f, "{:5} {}", tried.kind.name(), Outcome(tried))?;
            for candidate in self.report.weighed.iter().filter(|c| c.kind == tried.kind) {
                writeln!(f, "  {candidate}")?;
            }
        }
        if self.report.omitted > 0 {
            writeln!(f, "  and {} more", self.report.omitted)?;
        }
        Ok(())
    }
}

struct Outcome<'a>(&'a KindTried);

impl fmt::Display for Outcome<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.outcome {
            Ok(takes) => {
                write!(f, "{takes}{}", if self.0.chosen { ", chosen" } else { "" })
            }
            Err(Some(why)) => write!(f, "not tried: {why}"),
            Err(None) => f.write_str("nothing fits"),
        }
    }
}

impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.oversubscribed, self.units) {
            (true, _) => f.write_str("an oversubscribed device"),
            (false, 0) => f.write_str("a device already shared"),
            (false, units) => write!(f, "{units} of {} slices", self.of_units),
        }
    }
}

impl fmt::Display for Unsuitable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CountsGpus => "the request counts GPUs",
            Self::SeveralInstances => "the request asks for several instances",
            Self::NoMemoryNamed => "a share needs a memory size",
        })
    }
}

impl fmt::Display for Starts {
    /// The starts, ascending: `0, 2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let starts: Vec<String> = (0..16).filter(|s| self.0 >> s & 1 == 1).map(|s| s.to_string()).collect();
        f.write_str(&starts.join(", "))
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Verdict::Links { set, .. } = self.verdict {
            write!(f, "GPU {}: ", crate::GpuSet::from_bits(set))?;
        } else if let Some((profile, starts)) = &self.instances {
            write!(f, "GPU {} {} at {starts}: ", self.gpu, profile.name)?;
        } else {
            write!(f, "GPU {}: ", self.gpu)?;
        }
        self.verdict.fmt(f)?;
        let created = match self.verdict {
            Verdict::Costs(cost) => cost.created,
            Verdict::Share(ShareScore { class: ShareClass::Open | ShareClass::Carve, cost, .. }) => {
                cost.created
            }
            _ => return Ok(()),
        };
        if self.instances.is_some() && created == 0 {
            f.write_str(", reuses an idle instance")
        } else {
            Ok(())
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Costs(cost) => cost.fmt(f),
            Self::Share(score) => score.fmt(f),
            Self::Links { mbps, free, .. } => write!(f, "links of {}, of {free} free GPUs", gbps(*mbps)),
            Self::Ruled(constraint) => write!(f, "no: {constraint}"),
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "loses {} placements", self.lost)?;
        for (n, what) in [
            (self.opened, "opens an unused GPU"),
            (self.switched, "switches MIG mode on"),
            (self.destroyed, "destroys an idle instance"),
        ] {
            match n {
                0 => {}
                1 => write!(f, ", {what}")?,
                n => write!(f, ", {what} {n} times")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for ShareScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let warps = self.in_use_sm_percent * WARPS_PER_SM / 100;
        match self.class {
            ShareClass::Join => write!(f, "shared already, {warps} warps in use"),
            ShareClass::Open => write!(f, "to be opened, {}", self.cost),
            ShareClass::Carve => write!(f, "a new instance, {}", self.cost),
            ShareClass::Oversubscribe => {
                write!(f, "shared already, all threads promised, {warps} warps in use")
            }
        }
    }
}

/// Warps that an SM of an A100, A30 or H100 holds.
const WARPS_PER_SM: u64 = 64;

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOffered => f.write_str("not offered to this job by Slurm"),
            Self::MigOff => f.write_str("never in MIG mode (mig = \"off\")"),
            Self::MigAlways => f.write_str("always in MIG mode (mig = \"on\"), instances only"),
            Self::NoSuchProfile(model) => write!(f, "{} has no such profile", model.key),
            Self::TooLittleMemory { need, has } => {
                write!(f, "{} at most, {} asked", display_gb(*has), display_gb(*need))
            }
            Self::TooFewSms { need, has } => write!(f, "{has} SMs at most, {need} asked"),
            Self::Taken(job) => write!(f, "taken by job {job}"),
            Self::SharedBy(job) => write!(f, "shared through MPS by job {job}"),
            Self::IsolatedFor(job) => write!(f, "isolated for job {job}"),
            Self::OtherUser(uid) => write!(f, "shared by another user ({uid})"),
            Self::MemoryPromised { need, left } => {
                write!(f, "{} left, {} asked", display_gb(*left), display_gb(*need))
            }
            Self::ProfileLimit => f.write_str("no more of this profile beside the others"),
            Self::FitsOnly(n) => write!(f, "only {n} to be had"),
            Self::VariantNotNamed => f.write_str("special engines, only for those who name it"),
        }
    }
}

fn why_share(score: ShareScore) -> String {
    let warps = score.in_use_sm_percent * WARPS_PER_SM / 100;
    match score.class {
        ShareClass::Join => format!("of those already shared the one with the fewest warps in use ({warps})"),
        ShareClass::Open | ShareClass::Carve => format!("opened for sharing, {}", score.cost),
        ShareClass::Oversubscribe => format!("all threads are promised; fewest warps in use ({warps})"),
    }
}

fn why_whole(n: usize, mbps: u64, free: u32, inexact: bool) -> String {
    let best = if inexact { "large" } else { "largest" };
    match n {
        1 => format!("the lowest of {free} free"),
        _ => format!("{best} sum of links, {}, of {free} free GPUs", gbps(mbps)),
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn gbps(mbps: u64) -> String {
    format!("{} GB/s", mbps as f64 / 1000.0)
}

impl Report {
    /// A grant in words: `2g.10gb at slice 4 of GPU 3`.
    #[must_use]
    pub fn describe(&self, grant: &Grant) -> String {
        match grant {
            Grant::Mig(specs) => self.describe_instances(specs),
            Grant::Mps { on, mem_mib, threads } => {
                let device = match on {
                    ShareOn::Gpu(gpu) => format!("GPU {gpu}"),
                    ShareOn::Instance(spec) => self.describe_instances(&[*spec]),
                };
                format!("{} and {threads}% of the threads of {device}", display_gb(*mem_mib))
            }
            Grant::Whole(gpus) => {
                let list: Vec<String> = gpus.iter().map(ToString::to_string).collect();
                format!("GPU{} {}", if gpus.len() == 1 { "" } else { "s" }, list.join(", "))
            }
        }
    }

    fn describe_instances(&self, specs: &[MigSpec]) -> String {
        let mut places: BTreeMap<(GpuIndex, ProfileId), Vec<String>> = BTreeMap::new();
        for spec in specs {
            places.entry((spec.gpu, spec.profile)).or_default().push(spec.start.to_string());
        }
        let of = |((gpu, profile), starts): (&(GpuIndex, ProfileId), &Vec<String>)| {
            let s = if starts.len() == 1 { "" } else { "s" };
            format!("{} at slice{s} {} of GPU {gpu}", self.profile_name(*gpu, *profile), starts.join(" and "))
        };
        places.iter().map(of).collect::<Vec<_>>().join(", ")
    }

    fn profile_name(&self, gpu: GpuIndex, id: ProfileId) -> String {
        let profile = self.models.get(usize::from(gpu.0)).and_then(|m| m.profile_by_id(id));
        profile.map_or_else(|| format!("profile {id}"), |p| p.name.clone())
    }

    fn why_mig(&self, specs: &[MigSpec], cost: Cost) -> String {
        let smallest = match self.mem_mib {
            _ if self.named => "as named".to_owned(),
            Some(mem) => format!("smallest profile with {}", display_gb(mem)),
            None => "smallest profile".to_owned(),
        };
        let left = self.placements_before.saturating_sub(cost.lost);
        let tried = self.kinds.iter().find(|k| k.kind == Kind::Mig);
        let of = tried.filter(|t| specs.len() == 1 && t.feasible > 1);
        let of = of.map_or_else(String::new, |t| format!(", best of {}", t.feasible));
        let reuse = if cost.created == 0 { "; reuses an idle instance" } else { "" };
        format!("{smallest}; leaves {left} placements{of}{reuse}")
    }

    /// What the other kinds that `auto` tried would have taken.
    fn other_kinds(&self) -> String {
        let Some(chosen) = self.kinds.iter().find(|k| k.chosen).filter(|_| self.kinds.len() > 1) else {
            return String::new();
        };
        let takes = |k: &KindTried| k.outcome.ok().map(|t| t.to_string());
        let mut text = format!("; {} takes {}", chosen.kind, takes(chosen).unwrap_or_default());
        for other in self.kinds.iter().filter(|k| !k.chosen) {
            match other.outcome {
                Ok(takes) => text.push_str(&format!(", {} would take {takes}", other.kind)),
                Err(None) => text.push_str(&format!(", {} does not fit", other.kind)),
                Err(Some(_)) => {}
            }
        }
        text
    }

    /// Where some instances fit, but not as many as asked: how many do.
    fn too_few_instances(&self) -> Option<String> {
        let mut fit: BTreeMap<GpuIndex, u32> = BTreeMap::new();
        for candidate in self.weighed.iter().filter(|c| c.kind == Kind::Mig) {
            if let (Some((_, starts)), Verdict::Costs(_)) = (&candidate.instances, candidate.verdict) {
                let most = fit.entry(candidate.gpu).or_default();
                *most = starts.0.count_ones().max(*most);
            }
        }
        let sum: u32 = fit.values().sum();
        (sum > 0).then(|| format!("only {sum} such instances to be had"))
    }

    fn why_not(&self) -> String {
        // Constraint in words -> the GPUs it rules out.
        let mut by_reason: BTreeMap<String, crate::GpuSet> = BTreeMap::new();
        for candidate in &self.weighed {
            if let Verdict::Ruled(constraint) = candidate.verdict {
                by_reason.entry(constraint.to_string()).or_default().insert(candidate.gpu);
            }
        }
        let unsuitable = self.kinds.iter().filter_map(|k| k.outcome.err().flatten().map(|why| (k.kind, why)));
        let mut parts: Vec<String> = unsuitable.map(|(kind, why)| format!("{kind}: {why}")).collect();
        let mut reasons: Vec<_> = by_reason.into_iter().collect();
        reasons.sort_by_key(|(reason, gpus)| (std::cmp::Reverse(gpus.len()), reason.clone()));
        parts.extend(self.too_few_instances());
        let more = reasons.len().saturating_sub(MAX_REASONS);
        parts.extend(
            reasons.iter().take(MAX_REASONS).map(|(reason, gpus)| {
                format!("GPU{} {gpus}: {reason}", if gpus.len() == 1 { "" } else { "s" })
            }),
        );
        if more > 0 {
            parts.push(format!("{more} more reasons"));
        }
        if parts.is_empty() {
            "nothing was asked for".to_owned()
        } else {
            format!("nothing fits: {}", parts.join("; "))
        }
    }
}

/// Most reasons in the one line that says why nothing fits.
const MAX_REASONS: usize = 4;
