//! What a job gets on one node.

use geometry::{GpuIndex, ProfileId, Slice};

/// A MIG instance as planned: GPU, profile, first unit. It may or may not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MigSpec {
    /// On this GPU.
    pub gpu: GpuIndex,
    /// Of this profile.
    pub profile: ProfileId,
    /// Starting at this unit.
    pub start: Slice,
}

/// Where an MPS share lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShareOn {
    /// On a GPU without MIG.
    Gpu(GpuIndex),
    /// Inside this instance.
    Instance(MigSpec),
}

impl ShareOn {
    /// The GPU in either case.
    #[must_use]
    pub fn gpu(self) -> GpuIndex {
        match self {
            Self::Gpu(gpu) => gpu,
            Self::Instance(spec) => spec.gpu,
        }
    }
}

/// What a job gets on one node: nothing is left to choose for those who carry it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Instances of its own, one or more.
    Mig(Vec<MigSpec>),
    /// A share.
    Mps {
        /// Of what.
        on: ShareOn,
        /// Memory limit, MiB.
        mem_mib: u64,
        /// Share of that device's SMs, percent, 1 to 100.
        threads: u8,
    },
    /// Whole GPUs, in the order the job sees them; at least one.
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
