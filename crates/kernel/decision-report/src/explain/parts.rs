//! The parts of a report as text.

use std::fmt;

use crate::cost::Cost;
use crate::report::{
    Candidate, ComputeScore, Constraint, Fate, KindTried, SeatScore, ShareClass, ShareScore, Starts, Takes,
    Unsuitable,
};
use geometry::counted;
use geometry::size::display_gb;

/// Outcome for one kind: what it takes, or why it gives nothing.
pub(super) struct Outcome<'a>(pub(super) &'a KindTried);

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
            (false, units) => write!(f, "{units} of {} memory slices", self.of_units),
        }
    }
}

impl fmt::Display for Unsuitable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CountsGpus => "the request counts GPUs",
            Self::SeveralInstances => "the request asks for several instances",
            Self::LimitsThreads => "the request limits the SMs",
            Self::NoPool => "tessera.toml has no [tasks]",
            Self::NoMemoryNamed => "a share, and a compute instance, needs a memory size",
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
        let set = match self.fate {
            Fate::Set(score) => Some(score.gpus),
            Fate::Links { set, .. } => Some(topology::GpuSet::from_bits(set)),
            _ => None,
        };
        if let Some(set) = set {
            write!(f, "GPU {set}: ")?;
        } else if let Some((profile, starts)) = &self.instances {
            write!(f, "GPU {} {} at {starts}: ", self.gpu, profile.name)?;
        } else {
            write!(f, "GPU {}: ", self.gpu)?;
        }
        self.fate.fmt(f)?;
        let created = match self.fate {
            Fate::Costs(cost) | Fate::Compute(ComputeScore { joins: false, cost, .. }) => cost.created,
            Fate::Share(ShareScore { class: ShareClass::Open | ShareClass::Carve, cost, .. })
            | Fate::Seats(SeatScore { class: ShareClass::Open | ShareClass::Carve, cost, .. }) => {
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

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Costs(cost) => cost.fmt(f),
            Self::Share(score) => score.fmt(f),
            Self::Compute(score) => score.fmt(f),
            Self::Seats(score) => score.fmt(f),
            Self::Set(score) => score.fmt(f),
            Self::Links { mb_s, free, .. } => {
                write!(f, "links of {}, of {}", gbps(*mb_s), counted(*free, "free GPU"))
            }
            Self::Ruled(constraint) => write!(f, "no: {constraint}"),
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = |n, what: &str| match n {
            0 => None,
            1 => Some(what.to_owned()),
            n => Some(format!("{what} {n} times")),
        };
        // A GPU without MIG has no placements to lose.
        let lost = (self.lost > 0).then(|| format!("loses {}", counted(self.lost, "placement")));
        let does = [
            lost,
            times(self.opened, "opens an unused GPU"),
            times(self.switched, "switches MIG mode on"),
            times(self.destroyed, "destroys an idle instance"),
        ];
        let does: Vec<String> = does.into_iter().flatten().collect();
        f.write_str(if does.is_empty() { "loses nothing" } else { "" })?;
        f.write_str(&does.join(", "))
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

impl fmt::Display for ComputeScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, joins, lost, cost } = self;
        write!(f, "{}c at compute slice {}, loses {lost} compute instances, ", part.slices, part.start)?;
        if *joins { f.write_str("joins others") } else { write!(f, "a new GPU instance, {cost}") }
    }
}

impl fmt::Display for SeatScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class {
            ShareClass::Join | ShareClass::Oversubscribe => {
                write!(f, "in the pool, {} of {} seats taken", self.taken, self.of)
            }
            ShareClass::Open => write!(f, "to be opened, {}", self.cost),
            ShareClass::Carve => write!(f, "a new instance, {}", self.cost),
        }
    }
}

/// Bandwidth as people read it: `25 GB/s`.
#[expect(clippy::cast_precision_loss, reason = "for people")]
pub(super) fn gbps(mb_s: u64) -> String {
    format!("{} GB/s", mb_s as f64 / 1000.0)
}

/// Warps that an SM of an A100, A30 or H100 holds.
pub(super) const WARPS_PER_SM: u64 = 64;

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOffered => f.write_str("not offered to this job by Slurm"),
            Self::LeftOut => f.write_str("unhealthy, so it gets no new jobs (tessera layout says why)"),
            Self::KeptFor(purpose) => f.write_str(purpose.words()),
            Self::KeptUncut(n) => {
                let stay = if *n == 1 { "stays" } else { "stay" };
                write!(f, "{} of the node {stay} uncut (keep_uncut)", counted(*n, "GPU"))
            }
            Self::NoStaticInstance => f.write_str("cut by the site (static), into none that would do"),
            Self::NoMig => f.write_str("cannot be cut into MIG instances"),
            Self::MigOff => f.write_str("never in MIG mode (mig = \"off\")"),
            Self::MigAlways => f.write_str("always in MIG mode (mig = \"on\"), instances only"),
            Self::BeyondLimit => f.write_str("limits of the site leave this job no such instance"),
            Self::NoSuchProfile(model) => write!(f, "{} has no such profile", model.key),
            Self::TooLittleMemory { need, has } => {
                write!(f, "{} at most, {} asked", display_gb(*has), display_gb(*need))
            }
            Self::TooFewSms { need, has } => write!(f, "{has} SMs at most, {need} asked"),
            Self::Taken(job) => write!(f, "taken by job {job}"),
            Self::SharedBy(job) => write!(f, "shared through MPS by job {job}"),
            Self::IsolatedFor(job) => write!(f, "isolated for job {job}"),
            Self::InPool(job) => write!(f, "in the pool of GPU tasks, used by job {job}"),
            Self::ClaimedBy(job) => write!(f, "claimed by job {job}, which gets it next"),
            Self::TooFewSeats { need, has } => write!(f, "{has} seats at most, {need} needed"),
            Self::SeatsTaken { need, free } => write!(f, "{free} seats free, {need} asked"),
            Self::OtherUser(uid) => write!(f, "shared by another user ({uid})"),
            Self::MemoryPromised { need, left } => {
                write!(f, "{} left, {} asked", display_gb(*left), display_gb(*need))
            }
            Self::NoClientLeft(n) => write!(f, "has {n} shares, as many as MPS serves clients there"),
            Self::NoComputeSlices(n) => write!(f, "no {n} adjacent free compute slices"),
            Self::NoSharedMemory => {
                f.write_str("no compute instances on this site (shared_memory = \"never\")")
            }
            Self::ProfileLimit => f.write_str("no room for one more instance of this profile"),
            Self::FitsOnly(n) => write!(f, "only {n} available"),
            Self::VariantNotNamed => f.write_str("special engines, only for those who name it"),
        }
    }
}
