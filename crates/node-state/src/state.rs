//! A node's GPUs and who holds them, as the placement engine sees them.

use geometry::{JobId, Model, Placement, Profile, ProfileId, Slice, Uid};
use topology::LinkMatrix;

/// Whether a node's GPUs may be partitioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigPolicy {
    /// Always in MIG mode: instances only.
    On,
    /// Never in MIG mode.
    Off,
    /// The mode is switched on an idle GPU as jobs need it.
    Dynamic,
}

impl MigPolicy {
    /// The policy for one GPU of a node with this policy: a model without MIG is never in MIG mode.
    #[must_use]
    pub fn on(self, model: &Model) -> Self {
        if model.has_mig() { self } else { Self::Off }
    }
}

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

/// Who holds an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// This job alone.
    Isolated(JobId),
    /// Jobs that share it through MPS; never empty.
    Shared(Vec<Share>),
    /// Nobody. It is kept for the next job that needs its profile, and destroyed when its slices are needed.
    Idle,
}

/// A MIG instance, as planned or existing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// A profile of the GPU's model.
    pub profile: ProfileId,
    /// Its first placement unit.
    pub start: Slice,
    /// The jobs that use it, if any.
    pub holder: Holder,
}

/// What one GPU is used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuState {
    /// No job, and no instances.
    Free,
    /// One job has all of it.
    Whole(JobId),
    /// Jobs share it through MPS, without MIG; never empty.
    Mps(Vec<Share>),
    /// It is partitioned; instances do not overlap. If there are none, or all are idle, the GPU may be used in another
    /// way that its policy allows.
    Mig(Vec<Instance>),
}

/// One GPU of a node.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// The model, which says what instances the GPU can have.
    pub model: &'static Model,
    /// Whether it may be partitioned.
    pub policy: MigPolicy,
    /// What it is used for now.
    pub state: GpuState,
}

/// A node's GPUs and the links between them.
#[derive(Clone, Debug)]
pub struct Node {
    /// In the order of Slurm's numbers: entry `i` is the GPU of [`GpuIndex`](geometry::GpuIndex) `i`.
    pub gpus: Vec<Gpu>,
    /// Bandwidths in the order of `gpus`, with as many rows.
    pub links: LinkMatrix,
}

impl Gpu {
    /// The profile of an instance on this GPU; `None` for an id that its model does not have.
    #[must_use]
    #[inline]
    pub fn profile_of(&self, instance: &Instance) -> Option<&'static Profile> {
        self.model.profile_by_id(instance.profile)
    }

    /// Where an instance lies; `None` for a profile that this model does not have.
    #[must_use]
    #[inline]
    pub fn placement_of(&self, instance: &Instance) -> Option<Placement> {
        self.profile_of(instance).map(|p| p.at(instance.start))
    }
}

impl Node {
    /// The same node without jobs and instances.
    #[must_use]
    pub fn emptied(&self) -> Self {
        let mut node = self.clone();
        node.gpus.iter_mut().for_each(|gpu| gpu.state = GpuState::Free);
        node
    }
}
