//! Why a decision came out as it did: every candidate weighed, as data. Nothing is formatted until somebody reads it.

use crate::{Cost, Kind};
use geometry::{GpuIndex, JobId, Model, Profile, Uid};
use mapa::{BandwidthModel, Scores};
use protocol::moldable::{PlannedStart, SizeTime};
use topology::{GpuSet, Selection};

/// Most candidates that one report holds; [`Report::omitted`] counts the rest.
pub const MAX_WEIGHED: usize = 256;

/// What was considered, and what became of each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// In the order weighed.
    pub weighed: Vec<Candidate>,
    /// Candidates beyond [`MAX_WEIGHED`].
    pub omitted: u32,
    /// One entry per kind tried; more than one only for `auto`.
    pub kinds: Vec<KindTried>,
    /// Memory that was looked for, MiB: the request's or the site's default.
    pub mem_mib: Option<u64>,
    /// The request names a profile.
    pub named: bool,
    /// The sizes of a moldable job.
    pub times: Vec<SizeTime>,
    /// Where a plan wanted the instance, and whether it could be there.
    pub planned: Option<(PlannedStart, bool)>,
    /// Placements left on the node before this decision: see [`crate::cost`].
    pub placements_before: u32,
    /// Model of each GPU, so that ids can be turned into names.
    pub models: Vec<&'static Model>,
    /// The chosen one's fate; for several instances their summed cost.
    pub best: Option<Fate>,
    /// Candidates that could have been chosen, so far.
    pub feasible_now: u32,
    /// The search for whole GPUs stopped at its limit: the set is the best found, not proven best.
    pub inexact: bool,
}

/// A kind of grant that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindTried {
    /// Which.
    pub kind: Kind,
    /// What its best choice would take, or why it was not tried at all; `Err(None)`: tried, nothing fits.
    pub outcome: Result<Takes, Option<Unsuitable>>,
    /// Candidates of this kind that could have been chosen.
    pub feasible: u32,
    /// This one was taken.
    pub chosen: bool,
}

/// What a grant takes away from everyone else, in [`GPU_PARTS`]ths of a GPU by placement units.
///
/// Instances count their units; a whole GPU, or a GPU opened for shares, counts all of its own; a share that joins
/// others takes nothing that was still to be had. Oversubscribing a device is dearer than anything that does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takes {
    /// The device's threads are promised more than once.
    pub oversubscribed: bool,
    /// Parts of a GPU, summed over the GPUs.
    pub parts: u32,
    /// Placement units, for the reader.
    pub units: u32,
    /// Of so many on the GPUs concerned.
    pub of_units: u32,
}

impl Takes {
    /// Whether it takes strictly less from everyone else.
    #[must_use]
    pub fn less_than(self, other: Self) -> bool {
        (self.oversubscribed, self.parts) < (other.oversubscribed, other.parts)
    }
}

/// Parts of a GPU in [`Takes`]: a multiple of every model's number of placement units.
pub const GPU_PARTS: u32 = 5040;

/// Why `auto` leaves out a kind whatever the node's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsuitable {
    /// The request names a number of GPUs: only whole ones can be counted so.
    CountsGpus,
    /// The request asks for several instances.
    SeveralInstances,
    /// Shares need a memory size, and neither the request nor the site names one.
    NoMemoryNamed,
}

/// One thing that could have been the answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Of this kind.
    pub kind: Kind,
    /// On this GPU; for several whole GPUs the lowest.
    pub gpu: GpuIndex,
    /// As these instances; `None`: the GPU itself.
    pub instances: Option<(&'static Profile, Starts)>,
    /// What became of it.
    pub fate: Fate,
}

/// First units of one or more instances of one profile on one GPU: bit `i` for a start at unit `i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Starts(pub u16);

/// What became of a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    /// Possible, at this cost.
    Costs(Cost),
    /// A share is possible.
    Share(ShareScore),
    /// The set of whole GPUs that the policy asks for.
    Set(SetScore),
    /// The set with the largest sum of links, thousandths of GB/s, where no policy has an answer.
    Links {
        /// Sum over all pairs.
        mb_s: u64,
        /// GPUs taken, bit mask.
        set: u64,
        /// GPUs to choose from.
        free: u32,
    },
    /// Not possible.
    Ruled(Constraint),
}

/// What a set of whole GPUs is worth to the job, and how it was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SetScore {
    /// GPUs taken.
    pub gpus: GpuSet,
    /// Number of GPUs to choose from.
    pub free: u32,
    /// Name of the pattern.
    pub pattern: &'static str,
    /// Whether bandwidth matters to the job.
    pub sensitive: bool,
    /// How it was selected.
    pub policy: Selection,
    /// How bandwidth was predicted.
    pub model: BandwidthModel,
    /// Links, AggBW and EffBW of the match.
    pub scores: Scores,
    /// What remains among the other GPUs to choose from, GB/s (Equation 3).
    pub preserved_bw: f64,
    /// Sets as good by what the policy asks for, this one included, where the search counts them.
    pub tied_sets: Option<u64>,
}

/// How good a device is for a share; less is better, fields in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShareScore {
    /// Class of preference.
    pub class: ShareClass,
    /// Threads in use on the device: sum of percent times SMs. In-use warps are this times the warps of an SM / 100.
    pub in_use_sm_percent: u64,
    /// What opening it costs; size not counted.
    pub cost: Cost,
}

/// Classes of devices for a share, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShareClass {
    /// Already shared, with threads to spare.
    Join,
    /// A free GPU, an idle instance, or a new instance on a GPU that is always in MIG mode.
    Open,
    /// A new instance on a GPU that need not be in MIG mode, but is.
    Carve,
    /// Already shared, its threads all promised.
    Oversubscribe,
}

/// Why a candidate is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// The controller does not offer this GPU to the job.
    NotOffered,
    /// The node's GPUs are never in MIG mode.
    MigOff,
    /// The node's GPUs are always in MIG mode: instances only, the largest included.
    MigAlways,
    /// The GPU's model does not have the profile asked for.
    NoSuchProfile(&'static Model),
    /// The largest that the GPU could give has too little memory, MiB.
    TooLittleMemory {
        /// Asked.
        need: u64,
        /// There is.
        has: u64,
    },
    /// No profile has enough SMs.
    TooFewSms {
        /// Asked.
        need: u32,
        /// There are.
        has: u32,
    },
    /// A job is on (some of) it. For a GPU: has all of it.
    Taken(JobId),
    /// The GPU is shared through MPS; `JobId` is one of the sharers.
    SharedBy(JobId),
    /// A job has the instance to itself.
    IsolatedFor(JobId),
    /// Another user's MPS daemon serves it.
    OtherUser(Uid),
    /// The memory not yet promised is too little, MiB.
    MemoryPromised {
        /// Asked.
        need: u64,
        /// Left.
        left: u64,
    },
    /// No more instances of this profile on one GPU, or its engines are in use by another profile's.
    ProfileLimit,
    /// Fewer fit on the GPU than asked for.
    FitsOnly(u32),
    /// A variant with special engines: only for those who name it.
    VariantNotNamed,
}

impl Report {
    /// Adds a candidate, and counts it where it could have been chosen.
    pub fn push(&mut self, candidate: Candidate) {
        if !matches!(candidate.fate, Fate::Ruled(_)) {
            self.feasible_now += 1;
        }
        if self.weighed.len() < MAX_WEIGHED {
            self.weighed.push(candidate);
        } else {
            self.omitted += 1;
        }
    }
}
