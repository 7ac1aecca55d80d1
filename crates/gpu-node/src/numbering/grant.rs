//! What a job was granted, in NVML's numbers.

use geometry::{ProfileId, Slice};

use crate::gpu_ids::{GpuMinor, NvmlIndex, SlurmGpu};
use crate::journal::{Entry, InstanceRecord, Kind};
use crate::settings::GpuSettings;

/// A GPU of a grant, with all that is known of it before the driver is asked.
#[derive(Clone, Debug)]
pub struct GrantedGpu {
    /// NVML's number: what the driver is asked for.
    pub index: NvmlIndex,
    /// Slurm's number: what the job's steps are told.
    pub number: SlurmGpu,
    /// The minor number of the file that gres.conf names; `None`: gres.conf names none.
    pub minor: Option<GpuMinor>,
    /// As the site describes it, if it does.
    pub described: Option<GpuSettings>,
}

/// An instance as granted. It may or may not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceSpec {
    /// On this GPU.
    pub gpu: NvmlIndex,
    /// Of this profile.
    pub profile: ProfileId,
    /// Starting at this unit.
    pub start: Slice,
}

impl InstanceSpec {
    fn of(record: &InstanceRecord) -> Self {
        Self { gpu: record.gpu, profile: ProfileId(record.profile), start: record.placement().start }
    }
}

/// What a job was granted on this node, in NVML's numbers. Only [`super::Numbering::translate`] makes one of GPUs.
#[derive(Clone, Debug)]
pub struct NvmlGrant {
    pub(super) kind: Kind,
    pub(super) gpus: Vec<GrantedGpu>,
    pub(super) instances: Vec<InstanceSpec>,
    pub(super) share: Option<(u64, u8)>,
}

impl NvmlGrant {
    /// No GPU at all: for a job that is refused.
    #[must_use]
    pub fn nothing() -> Self {
        Self { kind: Kind::Whole, gpus: Vec::new(), instances: Vec::new(), share: None }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// The GPUs, in the order the job sees them, each once.
    #[must_use]
    pub fn gpus(&self) -> &[GrantedGpu] {
        &self.gpus
    }

    /// The instances, in the order the job sees them; for a share inside an instance, that one.
    pub(crate) fn instances(&self) -> &[InstanceSpec] {
        &self.instances
    }

    /// For a share: memory in MiB and percent of the SMs.
    pub(crate) fn share(&self) -> Option<(u64, u8)> {
        self.share
    }

    /// The key of the MPS daemon that a share needs: `gpu0` for a GPU, `gpu0-14-2` (profile id, start) for an instance.
    pub(crate) fn daemon_key(&self) -> Option<String> {
        self.share?;
        match self.instances.first() {
            Some(spec) => Some(format!("gpu{}-{}-{}", spec.gpu, spec.profile, spec.start)),
            None => self.gpus.first().map(|gpu| format!("gpu{}", gpu.index)),
        }
    }

    /// Whether a journalled job was planned from the same grant.
    pub(crate) fn is_of(&self, entry: &Entry) -> bool {
        self.kind == entry.kind
            && self.gpus.iter().map(|g| g.index).eq(entry.gpus.iter().map(|g| g.index))
            && self.instances.iter().copied().eq(entry.instances.iter().map(InstanceSpec::of))
            && self.share == entry.share.as_ref().map(|s| (s.mem_mib, s.threads))
    }
}
