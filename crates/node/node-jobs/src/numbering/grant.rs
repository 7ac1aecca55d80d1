//! The grant of a job, in NVML's numbers.

use geometry::{GpuIndex, ProfileId};
use protocol::{Grant, MigSpec, PoolSeats, ShareOn, TaskDevices, TaskGrant};

use crate::gpu_settings::GpuSettings;
use node_driver::{GpuMinor, NvmlIndex};
use node_journal::{Entry, GrantKind, InstanceRecord, PartRecord, TasksRecord};

/// A GPU of a grant, with all that is known of it before the driver is asked.
#[derive(Clone, Debug)]
pub struct GrantedGpu {
    /// NVML's number: what the driver is asked for.
    pub index: NvmlIndex,
    /// Slurm's number: what the job's steps are told.
    pub number: GpuIndex,
    /// The minor number of the file that gres.conf names; `None`: gres.conf names none.
    pub minor: Option<GpuMinor>,
    /// As the site describes it, if it does.
    pub described: Option<GpuSettings>,
}

/// A grant in NVML's numbers, with what is known of its GPUs. Only [`super::Numbering::translate`] makes one of GPUs.
#[derive(Clone, Debug)]
pub struct NvmlGrant {
    pub(super) grant: Grant<NvmlIndex>,
    pub(super) gpus: Vec<GrantedGpu>,
    /// Shared with other jobs: see [`GrantKind::Shards`].
    pub(super) shards: bool,
}

impl NvmlGrant {
    /// No GPU at all: for a job that is refused.
    #[must_use]
    pub fn nothing() -> Self {
        Self { grant: Grant::Whole(Vec::new()), gpus: Vec::new(), shards: false }
    }

    /// Marks the GPUs as those of a job that has shards of them by Slurm's own choice: it gets what stock Slurm gives it.
    #[must_use]
    pub fn as_shards(self) -> Self {
        Self { shards: true, ..self }
    }

    /// Tells whether Slurm's other jobs with shards may be on its GPUs.
    pub(crate) fn is_of_shards(&self) -> bool {
        self.shards
    }

    pub(crate) fn kind(&self) -> GrantKind {
        match self.grant {
            Grant::Mig(_) | Grant::Compute { .. } => GrantKind::Mig,
            Grant::Mps { .. } => GrantKind::Mps,
            Grant::Tasks(_) => GrantKind::Tasks,
            Grant::Whole(_) if self.shards => GrantKind::Shards,
            Grant::Whole(_) => GrantKind::Whole,
        }
    }

    /// The GPUs, in the order the job sees them, each once.
    #[must_use]
    pub fn gpus(&self) -> &[GrantedGpu] {
        &self.gpus
    }

    /// The GPU instances, in the order the job sees them; for a share, seats or a compute instance inside one, that one.
    pub(crate) fn instances(&self) -> Vec<MigSpec<NvmlIndex>> {
        self.grant.instances()
    }

    /// Tells whether the job alone may use its GPUs.
    pub(crate) fn has_whole_gpus(&self) -> bool {
        match &self.grant {
            Grant::Whole(_) => !self.shards,
            Grant::Tasks(tasks) => matches!(tasks.on, TaskDevices::Own { .. }),
            Grant::Mig(_) | Grant::Compute { .. } | Grant::Mps { .. } => false,
        }
    }

    /// For a share: memory in MiB and percent of the SMs.
    pub(crate) fn share(&self) -> Option<(u64, u8)> {
        match self.grant {
            Grant::Mps { mem_mib, threads, .. } => Some((mem_mib, threads)),
            Grant::Mig(_) | Grant::Compute { .. } | Grant::Tasks(_) | Grant::Whole(_) => None,
        }
    }

    /// For a compute instance: which, and the memory in MiB that the job states.
    pub(crate) fn compute(&self) -> Option<(PartRecord, u64)> {
        let Grant::Compute { part, mem_mib, .. } = self.grant else { return None };
        Some((PartRecord { slices: part.slices, start: part.start.0 }, mem_mib))
    }

    /// For GPU tasks: the job's seats.
    pub(crate) fn tasks(&self) -> Option<&TaskGrant<NvmlIndex>> {
        match &self.grant {
            Grant::Tasks(tasks) => Some(tasks),
            Grant::Mig(_) | Grant::Compute { .. } | Grant::Mps { .. } | Grant::Whole(_) => None,
        }
    }

    /// The key of the MPS daemon for each device of a share or of seats, in their order: `gpu0` for a GPU, `gpu0-14-2`
    /// (profile id, start) for an instance. A job's own GPUs have one daemon together, called after the lowest of them.
    #[must_use]
    pub fn daemon_keys(&self) -> Vec<String> {
        let key = |on: ShareOn<NvmlIndex>| match on {
            ShareOn::Gpu(gpu) => format!("gpu{gpu}"),
            ShareOn::Instance(spec) => format!("gpu{}-{}-{}", spec.gpu, spec.profile, spec.start),
        };
        match &self.grant {
            Grant::Mps { on, .. } => vec![key(*on)],
            Grant::Tasks(TaskGrant { on: TaskDevices::Own { gpus, .. }, .. }) => {
                let lowest = gpus.iter().min().map(|gpu| format!("gpu{gpu}"));
                gpus.iter().filter_map(|_| lowest.clone()).collect()
            }
            Grant::Tasks(tasks) => tasks.devices().map(key).collect(),
            Grant::Mig(_) | Grant::Compute { .. } | Grant::Whole(_) => Vec::new(),
        }
    }

    fn seats(&self) -> Option<Seats> {
        let tasks = self.tasks()?;
        let own = matches!(tasks.on, TaskDevices::Own { .. });
        Some((tasks.seats(), tasks.mem_mib, tasks.probes, own))
    }

    /// Tells whether a journalled job was planned from the same grant.
    #[must_use]
    pub fn is_of(&self, entry: &Entry) -> bool {
        let spec = |record: &InstanceRecord| MigSpec {
            gpu: record.gpu,
            profile: ProfileId(record.profile),
            start: record.placement().start,
        };
        self.kind() == entry.kind
            && self.gpus.iter().map(|g| g.index).eq(entry.gpus.iter().map(|g| g.index))
            && self.instances().into_iter().eq(entry.instances.iter().map(spec))
            && self.compute().map(|(part, _)| part) == entry.instances.first().and_then(|i| i.part)
            && self.share() == entry.share.as_ref().map(|s| (s.mem_mib, s.threads))
            && self.seats() == entry.tasks.as_ref().map(seats_of)
    }
}

/// Seats, memory of each process, probes, and whether the GPUs are the job's own.
type Seats = (u32, Option<u64>, bool, bool);

fn seats_of(record: &TasksRecord) -> Seats {
    (record.seats, record.mem_mib, record.probes, record.own)
}

/// Converts the GPU numbers of a grant to NVML's.
///
/// # Errors
///
/// The first of `number`'s.
pub(super) fn in_nvml_numbers<E>(
    grant: &Grant,
    number: impl Fn(GpuIndex) -> Result<NvmlIndex, E>,
) -> Result<Grant<NvmlIndex>, E> {
    let gpus = |gpus: &[GpuIndex]| gpus.iter().map(|gpu| number(*gpu)).collect::<Result<Vec<_>, E>>();
    let spec = |s: &MigSpec| number(s.gpu).map(|gpu| MigSpec { gpu, profile: s.profile, start: s.start });
    let device = |on: &ShareOn| match on {
        ShareOn::Gpu(gpu) => number(*gpu).map(ShareOn::Gpu),
        ShareOn::Instance(of) => spec(of).map(ShareOn::Instance),
    };
    Ok(match grant {
        Grant::Mig(specs) => Grant::Mig(specs.iter().map(spec).collect::<Result<_, E>>()?),
        Grant::Compute { within, part, mem_mib } => {
            Grant::Compute { within: spec(within)?, part: *part, mem_mib: *mem_mib }
        }
        Grant::Mps { on, mem_mib, threads } => {
            Grant::Mps { on: device(on)?, mem_mib: *mem_mib, threads: *threads }
        }
        Grant::Tasks(TaskGrant { on, mem_mib, probes }) => {
            let seat = |s: &PoolSeats| device(&s.on).map(|on| PoolSeats { on, seats: s.seats });
            let on = match on {
                TaskDevices::Pool(pool) => {
                    TaskDevices::Pool(pool.iter().map(seat).collect::<Result<_, E>>()?)
                }
                TaskDevices::Own { gpus: own, seats } => TaskDevices::Own { gpus: gpus(own)?, seats: *seats },
            };
            Grant::Tasks(TaskGrant { on, mem_mib: *mem_mib, probes: *probes })
        }
        Grant::Whole(whole) => Grant::Whole(gpus(whole)?),
    })
}
