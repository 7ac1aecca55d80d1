//! Decisions as text: one line for users.

mod parts;
mod set;

use std::collections::BTreeMap;

use crate::cost::Cost;
use crate::decision::Decision;
use crate::report::{ComputeScore, Fate, Report, SeatScore, ShareClass, ShareScore};
use geometry::size::display_gb;
use geometry::{GpuIndex, Profile, ProfileId};
use node_state::Kind;
use protocol::{Grant, MigSpec, ShareOn, TaskDevices};

pub use set::{number, prediction};

impl Decision {
    /// A line for the user: what was chosen and why, or what stands in the way.
    #[must_use]
    pub fn why(&self) -> String {
        let Some(grant) = &self.chosen else { return self.report.why_not() };
        format!("{}: {}", self.report.describe(grant), self.reason())
    }

    /// Why this grant was chosen, for a reader who sees the grant; empty if nothing was chosen.
    #[must_use]
    pub fn reason(&self) -> String {
        let Some(grant) = &self.chosen else { return String::new() };
        match (grant, self.report.best) {
            (Grant::Mig(specs), Some(Fate::Costs(cost))) => self.report.why_mig(specs, cost),
            (_, Some(Fate::Share(score))) => why_share(score).to_owned(),
            (Grant::Compute { within, part, .. }, Some(Fate::Compute(score))) => {
                self.report.why_compute(within, part.slices, score)
            }
            (grant, Some(Fate::Seats(score))) => why_seats(score, grant.gpus().len()),
            (Grant::Whole(_) | Grant::Tasks(_), Some(Fate::Set(score))) => {
                set::why(&score, !self.report.inexact)
            }
            (grant @ (Grant::Whole(_) | Grant::Tasks(_)), Some(Fate::Links { mb_s, free, .. })) => {
                why_whole(grant.gpus().len(), mb_s, free, self.report.inexact)
            }
            _ => String::new(),
        }
    }
}

fn why_share(score: ShareScore) -> &'static str {
    match score.class {
        ShareClass::Join => "joins the least loaded shared device",
        ShareClass::Open | ShareClass::Carve => "the first share there",
        ShareClass::Oversubscribe => "all threads are promised; joins the least loaded device",
    }
}

fn why_seats(score: SeatScore, gpus: usize) -> String {
    let joins = match score.class {
        ShareClass::Join | ShareClass::Oversubscribe => {
            format!("joins the pool of GPU tasks ({} of {} seats were taken)", score.taken, score.of)
        }
        ShareClass::Open | ShareClass::Carve => "the first in the pool there".to_owned(),
    };
    if gpus > 1 { format!("{joins}; its GPU tasks may use {gpus} GPUs") } else { joins }
}

fn why_whole(n: usize, mb_s: u64, free: u32, inexact: bool) -> String {
    let best = if inexact { "large" } else { "largest" };
    match n {
        1 => format!("the first of {free} free GPUs"),
        _ => format!("{best} sum of links, {}, of {free} free GPUs", gbps(mb_s)),
    }
}

impl Report {
    /// A grant in words: `2g.10gb at memory slice 4 of GPU 3`.
    #[must_use]
    pub fn describe(&self, grant: &Grant) -> String {
        match grant {
            Grant::Mig(specs) => self.describe_instances(specs),
            Grant::Compute { within, part, mem_mib } => format!(
                "{}c at compute slice {} of {}, {} of its memory",
                part.slices,
                part.start,
                self.describe_instances(&[*within]),
                display_gb(*mem_mib)
            ),
            Grant::Mps { on, mem_mib, threads } => {
                let device = self.describe_devices(std::iter::once(*on));
                format!("a share of {} and {threads} % of the SMs of {device}", display_gb(*mem_mib))
            }
            Grant::Tasks(tasks) => {
                let (n, whole) = (tasks.seats(), matches!(tasks.on, TaskDevices::Own { .. }));
                let seats = if n == 1 { "1 seat".to_owned() } else { format!("{n} seats") };
                let whole = if whole { "whole " } else { "" };
                format!("{seats} on {whole}{}", self.describe_devices(tasks.devices()))
            }
            Grant::Whole(gpus) => describe_gpus(gpus),
        }
    }

    fn describe_devices(&self, devices: impl Iterator<Item = ShareOn>) -> String {
        let (mut gpus, mut specs) = (Vec::new(), Vec::new());
        devices.for_each(|on| match on {
            ShareOn::Gpu(gpu) => gpus.push(gpu),
            ShareOn::Instance(spec) => specs.push(spec),
        });
        if specs.is_empty() { describe_gpus(&gpus) } else { self.describe_instances(&specs) }
    }

    fn describe_instances(&self, specs: &[MigSpec]) -> String {
        let mut places: BTreeMap<(GpuIndex, ProfileId), Vec<String>> = BTreeMap::new();
        for spec in specs {
            places.entry((spec.gpu, spec.profile)).or_default().push(spec.start.to_string());
        }
        let of = |((gpu, profile), starts): (&(GpuIndex, ProfileId), &Vec<String>)| {
            let s = if starts.len() == 1 { "" } else { "s" };
            format!(
                "{} at memory slice{s} {} of GPU {gpu}",
                self.profile_name(*gpu, *profile),
                starts.join(" and ")
            )
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
            _ if !self.times.is_empty() => {
                let sizes: Vec<String> = self.times.iter().map(|t| format!("{}g", t.slices)).collect();
                format!("fewest slice-seconds of {}", sizes.join(", "))
            }
            Some(mem) => format!("smallest instance with {}", display_gb(mem).replace(".0 ", " ")),
            None => "smallest instance".to_owned(),
        };
        let each = if specs.len() > 1 { " each" } else { "" };
        let sms = specs.first().and_then(|spec| self.sms(spec, |profile| Some(profile.sm)));
        let has = sms.map_or_else(String::new, |sms| format!("; {sms}{each}"));
        let reuse = if cost.created == 0 { "; reuses an idle instance" } else { "" };
        format!("{smallest}{}{has}{reuse}", self.planned_place())
    }

    /// The part of its GPU's SMs that an instance has, or what `of` takes of that: `14 of 108 SMs`.
    fn sms(&self, spec: &MigSpec, of: impl FnOnce(&Profile) -> Option<u32>) -> Option<String> {
        let model = self.models.get(usize::from(spec.gpu.0))?;
        Some(model.sms_in_words(of(model.profile_by_id(spec.profile)?)?))
    }

    fn planned_place(&self) -> String {
        match self.planned {
            Some((_, true)) => ", at the planned place".to_owned(),
            Some((place, false)) => format!(", the planned place {place} is not free"),
            None => String::new(),
        }
    }

    fn why_compute(&self, within: &MigSpec, slices: u8, score: ComputeScore) -> String {
        let how = if score.joins {
            "joins others in a GPU instance; memory and cache are shared with them"
        } else {
            "the first in its GPU instance"
        };
        let sms = self.sms(within, |profile| profile.compute(slices).map(|size| size.sm));
        let has = sms.map_or_else(String::new, |sms| format!("{sms}, "));
        format!("as named{}; {has}{how}", self.planned_place())
    }

    /// Gives the number of instances that fit on each GPU, if some do but not as many as asked for where they are asked for.
    fn too_few_instances(&self) -> Option<String> {
        let mut fit: BTreeMap<GpuIndex, u32> = BTreeMap::new();
        for candidate in self.weighed.iter().filter(|c| c.kind == Kind::Mig) {
            if let (Some((_, starts)), Fate::Costs(_)) = (&candidate.instances, candidate.fate) {
                let most = fit.entry(candidate.gpu).or_default();
                *most = starts.0.count_ones().max(*most);
            }
        }
        let on: Vec<String> = fit.iter().map(|(gpu, most)| format!("{most} on GPU {}", gpu.0)).collect();
        (!on.is_empty()).then(|| format!("such instances available: {}", on.join(", ")))
    }

    fn why_not(&self) -> String {
        // Constraint in words -> the GPUs it rules out.
        let mut by_reason: BTreeMap<String, topology::GpuSet> = BTreeMap::new();
        for candidate in &self.weighed {
            if let Fate::Ruled(constraint) = candidate.fate {
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
            parts.push(format!("{more} more reason{}", if more == 1 { "" } else { "s" }));
        }
        if parts.is_empty() {
            "nothing was asked for".to_owned()
        } else {
            format!("nothing fits: {}", parts.join("; "))
        }
    }
}

/// Writes bandwidth as people read it: `25 GB/s`.
#[expect(clippy::cast_precision_loss, reason = "for people")]
#[must_use]
pub fn gbps(mb_s: u64) -> String {
    format!("{} GB/s", mb_s as f64 / 1000.0)
}

fn describe_gpus(gpus: &[GpuIndex]) -> String {
    let list: Vec<String> = gpus.iter().map(ToString::to_string).collect();
    format!("GPU{} {}", if gpus.len() == 1 { "" } else { "s" }, list.join(", "))
}

/// Most reasons in the line that says why nothing fits; the rest are counted.
const MAX_REASONS: usize = 4;
