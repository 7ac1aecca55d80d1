//! Why a candidate or a kind is not possible, as text.

use std::fmt;

use crate::report::{Constraint, Unsuitable};
use geometry::counted;
use geometry::size::display_gb;

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
