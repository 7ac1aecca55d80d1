//! Why a decision came out as it did: every candidate weighed, as data. Text is made only when somebody reads it.

use crate::cost::Cost;
use geometry::{GpuIndex, JobId, Model, Profile, Uid};
use node_state::Kind;
use node_state::Purpose;
use protocol::ComputeSpec;
use protocol::moldable::{PlannedStart, SizeTime};
use topology::{BandwidthModel, GpuSet, Scores, Selection};

/// Most candidates that one report holds; [`Report::omitted`] counts the rest.
pub const MAX_WEIGHED: usize = 256;

/// Every candidate considered, and what became of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The first [`MAX_WEIGHED`] candidates, in the order weighed.
    pub weighed: Vec<Candidate>,
    /// Number of candidates that were left out of `weighed`.
    pub omitted: u32,
    /// An entry per kind tried; more than one only for `auto`.
    pub kinds: Vec<KindTried>,
    /// Memory that each instance, share or GPU had to have, MiB: the request's or the site's default.
    pub mem_mib: Option<u64>,
    /// True if the request names a MIG profile.
    pub named: bool,
    /// The sizes that a moldable job listed, with its run times; empty for other jobs.
    pub times: Vec<SizeTime>,
    /// The place that a plan named for the instance, and whether the instance could be there.
    pub planned: Option<(PlannedStart, bool)>,
    /// Placements left on the node before this decision: see [`crate::cost`].
    pub placements_before: u32,
    /// Model of each GPU, by its index: turns profile ids into names.
    pub models: Vec<&'static Model>,
    /// The fate of what was chosen; for several instances their summed cost.
    pub best: Option<Fate>,
    /// Number of the candidates so far that could have been chosen.
    pub feasible_now: u32,
    /// True if the search for whole GPUs stopped at its limit: the set is the best found, not proven best.
    pub inexact: bool,
}

/// A kind of grant that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindTried {
    /// The kind that this entry is about.
    pub kind: Kind,
    /// Parts that the best grant of the kind would take. `Err(Some)`: why the kind was not tried. `Err(None)`: it was tried
    /// and nothing fits.
    pub outcome: Result<Takes, Option<Unsuitable>>,
    /// Number of candidates of this kind that could have been chosen.
    pub feasible: u32,
    /// True if the job gets this kind.
    pub chosen: bool,
}

/// Parts that a grant takes away from everyone else, in [`GPU_PARTS`]ths of a GPU by placement units.
///
/// Instances count their units. A whole GPU, and a GPU opened for shares, counts all its units. A share that joins others
/// counts none: the device is in use already. Oversubscribing a device costs more than anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takes {
    /// True if the device's threads are promised more than once.
    pub oversubscribed: bool,
    /// [`GPU_PARTS`]ths of a GPU, summed over the GPUs.
    pub parts: u32,
    /// Placement units taken, for people.
    pub units: u32,
    /// Placement units that the GPUs concerned have, for people.
    pub of_units: u32,
}

impl Takes {
    /// Makes it of `units` of a GPU's placement units, or of none where others share the device already.
    #[must_use]
    #[inline]
    pub fn of_units(units: u32, of_units: u32) -> Self {
        Self { oversubscribed: false, parts: units * GPU_PARTS / of_units.max(1), units, of_units }
    }

    /// Tells whether it takes strictly less from everyone else.
    #[must_use]
    #[inline]
    pub fn less_than(self, other: Self) -> bool {
        (self.oversubscribed, self.parts) < (other.oversubscribed, other.parts)
    }
}

/// Parts of a GPU in [`Takes`]: a multiple of every model's number of placement units.
pub const GPU_PARTS: u32 = 5040;

/// Why a kind is not tried, whatever the node's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsuitable {
    /// The request names a number of GPUs, which only whole GPUs can satisfy.
    CountsGpus,
    /// The request asks for several instances, which this kind cannot give.
    SeveralInstances,
    /// The request limits the SMs, which a job of GPU tasks cannot.
    LimitsThreads,
    /// The site has no pool of GPU tasks.
    NoPool,
    /// A share needs a memory size, and neither the request nor the site names one; or a compute instance does, and the
    /// request names none.
    NoMemoryNamed,
}

/// Something that was considered for the job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The kind of grant that it would be.
    pub kind: Kind,
    /// The GPU that it is on; for several whole GPUs the lowest.
    pub gpu: GpuIndex,
    /// Profile and starts of the instances; `None`: the GPU itself.
    pub instances: Option<(&'static Profile, Starts)>,
    /// Cost of the candidate, or why it was not possible.
    pub fate: Fate,
}

/// First units of one or more instances of one profile on one GPU: bit `i` for a start at unit `i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Starts(pub u16);

/// Outcome for a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    /// Possible, at this cost.
    Costs(Cost),
    /// A share is possible.
    Share(ShareScore),
    /// A compute instance is possible.
    Compute(ComputeScore),
    /// Seats in the pool are possible.
    Seats(SeatScore),
    /// The set of whole GPUs that MAPA's policy asks for.
    Set(SetScore),
    /// The set of whole GPUs with the largest sum of links, because no policy has an answer.
    Links {
        /// Sum over all pairs, MB/s.
        mb_s: u64,
        /// GPUs of the set, bit mask.
        set: u64,
        /// Number of GPUs to choose from.
        free: u32,
    },
    /// Not possible, for this reason.
    Ruled(Constraint),
}

/// Worth of a set of whole GPUs to the job, and the method of its choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SetScore {
    /// The GPUs of the set.
    pub gpus: GpuSet,
    /// Number of GPUs to choose from.
    pub free: u32,
    /// Name of the pattern.
    pub pattern: &'static str,
    /// True if bandwidth matters to the job.
    pub sensitive: bool,
    /// Policy that selected it.
    pub policy: Selection,
    /// Model that predicted bandwidth.
    pub model: BandwidthModel,
    /// Links, AggBW and EffBW of the match.
    pub scores: Scores,
    /// Bandwidth that remains among the GPUs not taken, GB/s (MAPA, Equation 3).
    pub preserved_bw: f64,
    /// Number of sets that are as good by what the policy asks for, this one included; `None` if the search does not count
    /// them.
    pub tied_sets: Option<u64>,
}

/// Worth of a device for a share. Which of two is better, the engine says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareScore {
    /// Compared first.
    pub class: ShareClass,
    /// Threads promised on the device: the shares' summed percent times the device's SMs. Times the warps of an SM, over
    /// 100, this is CASE's count of in-use warps.
    pub in_use_sm_percent: u64,
    /// Cost of opening the device, without its size.
    pub cost: Cost,
}

/// Worth of a place for a compute instance. Which of two is better, the engine says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputeScore {
    /// Slices in the GPU instance.
    pub part: ComputeSpec,
    /// True if other jobs have compute instances in the GPU instance already.
    pub joins: bool,
    /// Compute instances, by size and start, that can no longer be made in the GPU instance.
    pub lost: u32,
    /// Cost of the GPU instance; nothing where it is there for others.
    pub cost: Cost,
}

/// Worth of a GPU's devices in the pool for a job of GPU tasks. Which of two is better, the engine says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeatScore {
    /// Compared first; never [`ShareClass::Oversubscribe`].
    pub class: ShareClass,
    /// Seats that jobs have on the devices that the job may use.
    pub taken: u32,
    /// Seats that these devices have.
    pub of: u32,
    /// Cost of opening a device, without its size.
    pub cost: Cost,
}

/// Classes of devices for a share or seats, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShareClass {
    /// Already shared, with threads to spare.
    Join,
    /// A free GPU, an idle instance, or a new instance on a GPU that is always in MIG mode.
    Open,
    /// A new instance on a GPU that is in MIG mode now but need not be.
    Carve,
    /// Already shared, with all threads promised.
    Oversubscribe,
}

/// Why a candidate is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// slurmctld does not offer this GPU to the job.
    NotOffered,
    /// The GPU is unhealthy.
    LeftOut,
    /// The site keeps the GPU for something else.
    KeptFor(Purpose),
    /// So many of the node's GPUs must stay without instances and shares, and this is one of those left.
    KeptUncut(usize),
    /// The site's own instances there do not satisfy the request, whoever has them now.
    NoStaticInstance,
    /// The GPU's model has no MIG, or none whose places are known.
    NoMig,
    /// The node's GPUs are never in MIG mode.
    MigOff,
    /// The node's GPUs are always in MIG mode, so none can be had whole; the largest instance can.
    MigAlways,
    /// The site's limits leave the job none of the profiles that would do.
    BeyondLimit,
    /// The GPU's model does not have the profile asked for.
    NoSuchProfile(&'static Model),
    /// The largest thing of this kind that the GPU could give has too little memory.
    TooLittleMemory {
        /// Memory asked for, MiB.
        need: u64,
        /// Memory that the largest has, MiB.
        has: u64,
    },
    /// No profile of the GPU's model has enough SMs.
    TooFewSms {
        /// Least number of SMs that will do.
        need: u32,
        /// SMs of the largest profile.
        has: u32,
    },
    /// A job holds the candidate or a part of it.
    Taken(JobId),
    /// The GPU is shared through MPS; this job is one of those that share it.
    SharedBy(JobId),
    /// A job has the instance to itself.
    IsolatedFor(JobId),
    /// The device is in the pool of GPU tasks; this job is one of those that may use it.
    InPool(JobId),
    /// This isolated job waits for the device and gets it next.
    ClaimedBy(JobId),
    /// The device has fewer seats than Slurm tasks need one.
    TooFewSeats {
        /// Seats needed on a further device.
        need: u32,
        /// Seats that the largest has.
        has: u32,
    },
    /// Too few seats of the GPU's devices in the pool are free.
    SeatsTaken {
        /// Seats asked for.
        need: u32,
        /// Free seats.
        free: u32,
    },
    /// The MPS daemon of this other user serves the device.
    OtherUser(Uid),
    /// The device has as many shares as MPS serves clients there.
    NoClientLeft(u32),
    /// Too few compute slices of the GPU instance are free beside each other for a compute instance of this size.
    NoComputeSlices(u8),
    /// The site gives out no compute instances.
    NoSharedMemory,
    /// Too little of the device's memory is not yet promised to other shares.
    MemoryPromised {
        /// Memory asked for, MiB.
        need: u64,
        /// Memory not yet promised, MiB.
        left: u64,
    },
    /// The GPU can have no more instances of this profile, or another instance has the engines that it needs.
    ProfileLimit,
    /// Only this many fit, fewer than asked for.
    FitsOnly(u32),
    /// The instance is of a variant with special engines, which only a request that names it gets.
    VariantNotNamed,
}

impl Report {
    /// Adds a candidate, and counts it if it could have been chosen.
    #[inline]
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
