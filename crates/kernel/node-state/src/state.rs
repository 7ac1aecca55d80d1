//! A node's GPUs and who holds them, as the placement engine sees them.

use std::sync::Arc;

use geometry::{JobId, Model, Profile, ProfileId, Slice, Uid};
use gpu_rules::{MigPolicy, Purpose};
use protocol::{ComputeSpec, ShareOn};
use topology::HardwareGraph;

/// A job's share of a GPU or instance under MPS. Memory is a hard limit, threads a soft one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The job that has the share.
    pub job: JobId,
    /// The job's user: one MPS daemon serves one user unless the site says otherwise.
    pub uid: Uid,
    /// Most memory that the job may use on the device, MiB.
    pub mem_mib: u64,
    /// Share of the device's SMs, percent, 1 to 100.
    pub threads: u8,
}

/// A job's compute instance in a GPU instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputeHold {
    /// The job that has it.
    pub job: JobId,
    /// The job's user.
    pub uid: Uid,
    /// Compute slices of the GPU instance that it takes.
    pub part: ComputeSpec,
    /// Memory that the job states, MiB. The GPU instance's memory is shared, and nothing holds a job to what it states.
    pub mem_mib: u64,
}

/// A job in the pool of GPU tasks, on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The job, which may use the device.
    pub job: JobId,
    /// The job's user: one MPS daemon serves one user unless the site says otherwise.
    pub uid: Uid,
    /// Seats there that are the job's own: see [`protocol::PoolSeats`].
    pub seats: u32,
}

/// An isolated job waits for a device of the pool and gets it next: no new job of GPU tasks may use the device, or open
/// another one in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The job that waits.
    pub job: JobId,
    /// The device.
    pub on: ShareOn,
}

/// Holder of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// This job alone.
    Isolated(JobId),
    /// Jobs that share it through MPS; never empty.
    Shared(Vec<Share>),
    /// Jobs that have compute instances in it, ascending by first compute slice; never empty.
    Compute(Vec<ComputeHold>),
    /// In the pool of GPU tasks, and these jobs may use it; never empty.
    Pool(Vec<Seat>),
    /// Nobody. It is kept for the next job that needs its profile, and destroyed when its slices are needed.
    Idle,
}

/// A MIG instance, as planned or existing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// A profile of the GPU's model.
    pub profile: ProfileId,
    /// First placement unit.
    pub start: Slice,
    /// The jobs that use it, if any.
    pub holder: Holder,
}

/// Use of one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuState {
    /// No job, and no instances.
    Free,
    /// A job has all of it.
    Whole(JobId),
    /// Jobs share it through MPS, without MIG; never empty.
    Mps(Vec<Share>),
    /// In the pool of GPU tasks, without MIG, and these jobs may use it; never empty.
    Tasks(Vec<Seat>),
    /// Partitioned; instances do not overlap. If there are none, or all are idle, the GPU may be used in another
    /// way that its policy allows.
    Mig(Vec<Instance>),
}

/// A GPU of a node.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// The model, which says what instances the GPU can have.
    pub model: &'static Model,
    /// Rule for partitioning it.
    pub policy: MigPolicy,
    /// Purpose that the site keeps it for. A purpose but [`Purpose::Any`] comes with the policy that goes with it: see
    /// [`Gpu::kept`].
    pub purpose: Purpose,
    /// Present use.
    pub state: GpuState,
    /// Unhealthy: jobs that are on it stay, and no new one gets anything of it.
    pub left_out: bool,
}

/// A node's GPUs and the links between them.
#[derive(Clone, Debug)]
pub struct Node {
    /// In the order of Slurm's numbers: entry `i` is the GPU of [`GpuIndex`](geometry::GpuIndex) `i`.
    pub gpus: Vec<Gpu>,
    /// Links in the order of `gpus`, among as many.
    pub links: Arc<HardwareGraph>,
    /// Number of flexible GPUs ([`Gpu::is_flexible`]) that stay without jobs' instances
    /// and shares.
    pub keep_uncut: usize,
    /// Devices of the pool that isolated jobs wait for.
    pub claims: Vec<Claim>,
}

impl Gpu {
    /// A GPU that may be used as `policy` says, with no job and no instances. One without MIG is never in MIG mode.
    #[must_use]
    pub fn new(model: &'static Model, policy: MigPolicy) -> Self {
        let (purpose, state) = (Purpose::Any, GpuState::Free);
        Self { model, policy: policy.on(model), purpose, state, left_out: false }
    }

    /// A GPU that the site keeps for one purpose, with no job. Only a static one has `instances`.
    #[must_use]
    pub fn kept(model: &'static Model, purpose: Purpose, instances: &[(ProfileId, Slice)]) -> Self {
        let idle = |(profile, start): &(ProfileId, Slice)| Instance {
            profile: *profile,
            start: *start,
            holder: Holder::Idle,
        };
        let state = match purpose {
            Purpose::Static => GpuState::Mig(instances.iter().map(idle).collect()),
            _ => GpuState::Free,
        };
        let policy = purpose.policy(model, MigPolicy::Dynamic);
        Self { model, policy, purpose, state, left_out: false }
    }

    /// Tells whether it may be had whole by one job and in parts by others: what [`Node::keep_uncut`] counts.
    #[must_use]
    #[inline]
    pub fn is_flexible(&self) -> bool {
        self.purpose == Purpose::Any && self.policy != MigPolicy::On
    }

    /// Tells whether some job may have it whole.
    #[must_use]
    #[inline]
    pub fn is_ever_whole(&self) -> bool {
        self.purpose.is_ever_whole(self.policy)
    }

    /// Tells whether a job has an instance or a share on it.
    #[must_use]
    #[inline]
    pub fn is_cut(&self) -> bool {
        match &self.state {
            GpuState::Free | GpuState::Whole(_) => false,
            GpuState::Mps(_) | GpuState::Tasks(_) => true,
            GpuState::Mig(instances) => instances.iter().any(|i| i.holder != Holder::Idle),
        }
    }

    /// Tells whether a job has all of it, an instance, a share or seats.
    #[must_use]
    #[inline]
    pub fn has_job(&self) -> bool {
        self.is_cut() || matches!(self.state, GpuState::Whole(_))
    }

    /// The profile of an instance on this GPU; `None` for an id that its model does not have.
    #[must_use]
    #[inline]
    pub fn profile_of(&self, instance: &Instance) -> Option<&'static Profile> {
        self.model.profile_by_id(instance.profile)
    }
}

impl Node {
    /// Gives the memory that so many plain shards stand for on its GPUs, where that is least, MiB; `None`: no GPU has so many.
    #[must_use]
    pub fn shards_mib(&self, count: u32) -> Option<u64> {
        let gpus = self.gpus.iter().filter(|gpu| gpu.model.shards() >= count);
        gpus.map(|gpu| gpu.model.shards_mib(count)).min()
    }

    /// GPUs with these links, and nothing said about what is kept of them.
    #[must_use]
    pub fn new(gpus: Vec<Gpu>, links: impl Into<Arc<HardwareGraph>>) -> Self {
        Self { gpus, links: links.into(), keep_uncut: 0, claims: Vec::new() }
    }

    /// Returns the node without jobs, with all GPUs healthy, and without instances but the static ones.
    #[must_use]
    pub fn emptied(&self) -> Self {
        let mut node = self.clone();
        node.claims.clear();
        for gpu in &mut node.gpus {
            gpu.left_out = false;
            match &mut gpu.state {
                GpuState::Mig(instances) if gpu.purpose == Purpose::Static => {
                    instances.iter_mut().for_each(|i| i.holder = Holder::Idle);
                }
                state => *state = GpuState::Free,
            }
        }
        node
    }

    /// Number of further flexible GPUs that may get a first instance or share, so that [`Node::keep_uncut`] holds.
    #[must_use]
    pub fn may_be_cut(&self) -> usize {
        if self.keep_uncut == 0 {
            return self.gpus.len();
        }
        let flexible = self.gpus.iter().filter(|g| g.is_flexible());
        let uncut = flexible.filter(|g| !g.is_cut()).count();
        uncut.saturating_sub(self.keep_uncut)
    }
}
