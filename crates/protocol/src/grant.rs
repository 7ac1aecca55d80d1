//! What a job gets on one node. GPUs have Slurm's numbers ([`GpuIndex`]).

use geometry::{GpuIndex, ProfileId, Slice};

/// A MIG instance as granted. It may or may not exist yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MigSpec {
    /// Slurm's number of the GPU, which is not always NVML's.
    pub gpu: GpuIndex,
    /// A profile of that GPU's model.
    pub profile: ProfileId,
    /// First placement unit, one of the profile's legal starts.
    pub start: Slice,
}

/// Where an MPS share lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShareOn {
    /// On a GPU without MIG.
    Gpu(GpuIndex),
    /// Inside this MIG instance.
    Instance(MigSpec),
}

impl ShareOn {
    /// The GPU that is shared, or that has the shared instance.
    #[must_use]
    pub fn gpu(self) -> GpuIndex {
        match self {
            Self::Gpu(gpu) => gpu,
            Self::Instance(spec) => spec.gpu,
        }
    }
}

/// What a job gets on one node. It leaves nothing to choose to the node side, which only translates Slurm's numbers of
/// GPUs to NVML's and carries the grant out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// One or more instances of the job's own.
    Mig(Vec<MigSpec>),
    /// A share of one device through MPS.
    Mps {
        /// The GPU or instance that is shared.
        on: ShareOn,
        /// Most memory that the job may use there, MiB.
        mem_mib: u64,
        /// Most of that device's SMs that the job may use, percent, 1 to 100.
        threads: u8,
    },
    /// At least one whole GPU, in the order in which the job sees them.
    Whole(Vec<GpuIndex>),
}

impl Grant {
    /// The GPUs that the grant touches, ascending, each once.
    #[must_use]
    pub fn gpus(&self) -> Vec<GpuIndex> {
        let mut gpus: Vec<GpuIndex> = match self {
            Self::Mig(specs) => specs.iter().map(|s| s.gpu).collect(),
            Self::Mps { on, .. } => vec![on.gpu()],
            Self::Whole(gpus) => gpus.clone(),
        };
        gpus.sort_unstable();
        gpus.dedup();
        gpus
    }
}
