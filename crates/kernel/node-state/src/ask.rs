//! A job's request to one node, what Slurm permits it there, and what the site prefers.

use std::borrow::Cow;
use std::fmt;

use crate::state::Node;
use geometry::{GpuIndex, JobId, Profile, SHARD_MIB, Uid};
use gpu_rules::{PoolPolicy, SharedMemory};
use protocol::{Bandwidth, Isolation, Request, SetWait};
use topology::{BandwidthModel, GpuSet, Pattern, Quota, Selection};

/// A job's request to one node, with what slurmctld permits there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The job that asks.
    pub job: JobId,
    /// The job's user: MPS daemons serve one user each unless the site says otherwise.
    pub uid: Uid,
    /// The job's request on the node.
    pub request: Request,
    /// GPUs that the job may use, such as those of the sockets on which it has cores; `None`: all.
    pub allowed: Option<GpuSet>,
    /// GPUs in use that are expected back first, if that is known. They break ties between sets of whole GPUs.
    pub next: GpuSet,
    /// For whole GPUs: how many the job must get of each group; together as many as it requests. Empty: any.
    pub quotas: Vec<Quota>,
    /// The job uses none of our options: it may have GPUs that the site leaves to Slurm.
    pub plain: bool,
    /// On which GPUs several instances may lie.
    pub spread: Spread,
}

/// On which GPUs of a node the instances of one job may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spread {
    /// All on one GPU.
    OneGpu,
    /// An equal number on each of as few GPUs as possible, at most `most` per GPU. Slurm 22.05 can account for no other: it
    /// counts the same number of shards on each GPU of a job.
    Alike {
        /// Most instances per GPU.
        most: u32,
    },
    /// Any number on any GPU.
    Any,
}

impl Spread {
    /// As few GPUs as possible, the same number of instances on each.
    pub const ALIKE: Self = Self::Alike { most: u32::MAX };
}

impl Ask {
    /// A request with every GPU of the node permitted.
    #[must_use]
    pub fn new(job: JobId, uid: Uid, request: Request) -> Self {
        Self {
            job,
            uid,
            request,
            allowed: None,
            next: GpuSet::EMPTY,
            quotas: Vec::new(),
            plain: false,
            spread: Spread::Any,
        }
    }

    /// Returns the shards of a job that asks for nothing else; `None`: it asks for something else.
    #[must_use]
    pub fn plain_shards(&self) -> Option<u32> {
        let mib = self.request.mem_mib.filter(|_| self.plain && self.request.isolation == Isolation::Mps)?;
        u32::try_from(mib / SHARD_MIB).ok()
    }

    /// Gives the request to this node. Plain shards are the memory that they stand for on those of its GPUs that have so many:
    /// where memory goes to ECC, all shards of a GPU are less than the gigabytes that it is named by.
    #[must_use]
    pub fn on(&self, node: &Node) -> Cow<'_, Self> {
        let least = self.plain_shards().and_then(|count| node.shards_mib(count));
        match least.filter(|least| self.request.mem_mib != Some(*least)) {
            Some(mem_mib) => {
                let request = Request { mem_mib: Some(mem_mib), ..self.request.clone() };
                Cow::Owned(Self { request, ..self.clone() })
            }
            None => Cow::Borrowed(self),
        }
    }

    /// Tells whether slurmctld permits this GPU.
    #[must_use]
    #[inline]
    pub fn permits(&self, gpu: GpuIndex) -> bool {
        self.allowed.is_none_or(|set| set.contains(gpu))
    }
}

/// The kinds of grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// MIG instances of the job's own.
    Mig,
    /// A share of a GPU or instance through MPS.
    Mps,
    /// Seats in the pool of devices that GPU tasks share.
    Tasks,
    /// Whole GPUs, outside MIG mode.
    Whole,
}

impl Kind {
    /// As users and `tessera.toml` write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mig => "mig",
            Self::Mps => "mps",
            Self::Tasks => "gpu-tasks",
            Self::Whole => "whole",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Rules for choosing sets of whole GPUs if a request does not say.
#[derive(Clone, Debug, PartialEq)]
pub struct SetPolicy {
    /// Policy that selects a set.
    pub selection: Selection,
    /// Model that predicts bandwidth.
    pub model: BandwidthModel,
    /// Pattern in which a job's GPUs talk to each other.
    pub pattern: Pattern,
    /// Dependence of a job's run time on the bandwidth between its GPUs.
    pub bandwidth: Bandwidth,
    /// Time that a job waits for a better set than it could have now; `None`: it does not wait.
    pub wait: Option<SetWait>,
}

impl Default for SetPolicy {
    /// MAPA's Preserve for rings. A job that does not say counts as sensitive to bandwidth.
    fn default() -> Self {
        Self {
            selection: Selection::default(),
            model: BandwidthModel::default(),
            pattern: Pattern::Ring,
            bandwidth: Bandwidth::Sensitive,
            wait: None,
        }
    }
}

/// The site's preferences: the same for every request of a partition.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Kinds that `auto` may use; of equally cheap ones it takes the first.
    pub auto: Vec<Kind>,
    /// True if different users may share one MPS daemon, and so one GPU or instance.
    pub share_between_users: bool,
    /// If the shares' threads on a device add up to more than this, percent, another device is preferred.
    pub max_threads: u32,
    /// Threads of a share that asks for none, percent; `None`: its part of the device's memory, rounded up.
    pub mps_threads: Option<u8>,
    /// Memory for a request that names neither memory nor profile, MiB; not for `whole`.
    pub default_mem_mib: Option<u64>,
    /// Jobs that may be beside each other in one GPU instance.
    pub shared_memory: SharedMemory,
    /// The pool of GPU tasks; `None`: the site has none.
    pub tasks: Option<PoolPolicy>,
    /// Rules for choosing sets of whole GPUs.
    pub sets: SetPolicy,
    /// The instances that the site's limits leave.
    pub instances: InstanceLimit,
}

/// The instances that the site's limits leave a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct InstanceLimit {
    /// Most memory by the profile's name, MiB; `None`: any.
    pub most_mib: Option<u64>,
    /// Names of the only profiles; `None`: any.
    pub only: Option<Vec<String>>,
    /// Most compute slices of one instance; `None`: any number.
    pub most_slices: Option<u64>,
}

impl InstanceLimit {
    /// No limit.
    pub const NONE: &'static InstanceLimit = &InstanceLimit { most_mib: None, only: None, most_slices: None };

    /// Tells whether a job may have an instance of this profile.
    #[must_use]
    pub fn allows(&self, profile: &Profile) -> bool {
        self.most_mib.is_none_or(|most| profile.nominal_mib() <= most)
            && self.only.as_ref().is_none_or(|only| only.contains(&profile.name))
            && self.most_slices.is_none_or(|most| u64::from(profile.compute_slices) <= most)
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            auto: vec![Kind::Mig, Kind::Mps, Kind::Whole],
            share_between_users: false,
            max_threads: 100,
            mps_threads: None,
            default_mem_mib: None,
            shared_memory: SharedMemory::SameUser,
            tasks: None,
            sets: SetPolicy::default(),
            instances: InstanceLimit::default(),
        }
    }
}
