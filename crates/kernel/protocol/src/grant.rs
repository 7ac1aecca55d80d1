//! The grant of a job on one node.
//!
//! `G` is how its GPUs are counted. Without it, the number is Slurm's: all that slurmctld decides, and every string that it
//! writes. On the node the prolog translates each number into NVML's, a type of its own.

use geometry::{GpuIndex, ProfileId, Slice};

/// A MIG instance as granted. It may or may not exist yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MigSpec<G = GpuIndex> {
    /// The GPU, by the number that `G` stands for.
    pub gpu: G,
    /// A profile of that GPU's model.
    pub profile: ProfileId,
    /// First placement unit, one of the profile's legal starts.
    pub start: Slice,
}

/// A compute instance: some of the compute slices of a GPU instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputeSpec {
    /// Compute slices, fewer than the GPU instance has.
    pub slices: u8,
    /// First compute slice within the GPU instance, one of the size's legal starts.
    pub start: Slice,
}

impl ComputeSpec {
    /// The compute slices as a bit mask, bit 0 for the first of the GPU instance.
    #[must_use]
    #[inline]
    pub fn mask(self) -> u16 {
        geometry::compute_mask(self.slices, self.start)
    }
}

/// Device that an MPS share is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShareOn<G = GpuIndex> {
    /// On a GPU without MIG.
    Gpu(G),
    /// Inside this instance.
    Instance(MigSpec<G>),
}

impl<G: Copy> ShareOn<G> {
    /// The first placement unit of an instance; `None` for a GPU.
    #[must_use]
    pub fn start(self) -> Option<u8> {
        match self {
            Self::Gpu(_) => None,
            Self::Instance(spec) => Some(spec.start.0),
        }
    }

    /// The GPU in either case.
    #[must_use]
    pub fn gpu(self) -> G {
        match self {
            Self::Gpu(gpu) => gpu,
            Self::Instance(spec) => spec.gpu,
        }
    }

    /// The like place on another GPU.
    #[must_use]
    pub fn with_gpu(self, gpu: G) -> Self {
        match self {
            Self::Gpu(_) => Self::Gpu(gpu),
            Self::Instance(spec) => Self::Instance(MigSpec { gpu, ..spec }),
        }
    }
}

/// A device of the task pool that a job's tasks may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolSeats<G = GpuIndex> {
    /// The device.
    pub on: ShareOn<G>,
    /// Seats there that are the job's. With 0 its tasks may still go there while others leave seats unused.
    pub seats: u32,
}

/// Devices on which the tasks of a job may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskDevices<G = GpuIndex> {
    /// Devices of the pool, which other jobs use as well: ascending, never none. The seats are on one GPU. Devices on several GPUs are
    /// GPUs without MIG.
    Pool(Vec<PoolSeats<G>>),
    /// Whole GPUs of the job's own under one MPS daemon: in the order of [`Grant::Whole`], never none.
    Own {
        /// The GPUs.
        gpus: Vec<G>,
        /// Seats over all of them.
        seats: u32,
    },
}

/// Seats for a job whose GPU tasks are placed when they begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskGrant<G = GpuIndex> {
    /// Every device that the job may use.
    pub on: TaskDevices<G>,
    /// Memory that each process takes from begin to end, MiB; `None`: the programs ask themselves.
    pub mem_mib: Option<u64>,
    /// The programs ask for their tasks themselves: nothing is preloaded.
    pub probes: bool,
}

impl<G: Copy> TaskGrant<G> {
    /// The devices, in their order; each GPU of the job's own is one.
    pub fn devices(&self) -> impl Iterator<Item = ShareOn<G>> {
        let (pool, own): (&[PoolSeats<G>], &[G]) = match &self.on {
            TaskDevices::Pool(pool) => (pool, &[]),
            TaskDevices::Own { gpus, .. } => (&[], gpus),
        };
        pool.iter().map(|seat| seat.on).chain(own.iter().map(|gpu| ShareOn::Gpu(*gpu)))
    }

    /// The job's seats on the node: one per Slurm task.
    #[must_use]
    pub fn seats(&self) -> u32 {
        match &self.on {
            TaskDevices::Pool(pool) => pool.iter().map(|seat| seat.seats).sum(),
            TaskDevices::Own { seats, .. } => *seats,
        }
    }
}

/// The grant of a job on one node: nothing is left to choose for those who carry it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant<G = GpuIndex> {
    /// Instances of its own, one or more.
    Mig(Vec<MigSpec<G>>),
    /// A compute instance of its own. Other jobs may have compute instances in the same GPU instance.
    Compute {
        /// The GPU instance, whose memory and cache they share.
        within: MigSpec<G>,
        /// The job's part of it.
        part: ComputeSpec,
        /// Memory that the job says it needs, MiB. Nothing holds it to that.
        mem_mib: u64,
    },
    /// A share.
    Mps {
        /// The device that is shared.
        on: ShareOn<G>,
        /// Memory limit, MiB.
        mem_mib: u64,
        /// Share of that device's SMs, percent, 1 to 100.
        threads: u8,
    },
    /// Seats in the pool of devices that GPU tasks share.
    Tasks(TaskGrant<G>),
    /// Whole GPUs, in the order the job sees them; at least one.
    Whole(Vec<G>),
}

impl<G: Copy + Ord> Grant<G> {
    /// The GPUs that the grant touches, ascending, each once.
    #[must_use]
    pub fn gpus(&self) -> Vec<G> {
        let mut gpus: Vec<G> = match self {
            Self::Mig(specs) => specs.iter().map(|s| s.gpu).collect(),
            Self::Compute { within, .. } => vec![within.gpu],
            Self::Mps { on, .. } => vec![on.gpu()],
            Self::Tasks(tasks) => tasks.devices().map(ShareOn::gpu).collect(),
            Self::Whole(gpus) => gpus.clone(),
        };
        gpus.sort_unstable();
        gpus.dedup();
        gpus
    }

    /// The GPU instances, in the order the job sees them; of a share, a compute instance or seats inside instances, those.
    #[must_use]
    pub fn instances(&self) -> Vec<MigSpec<G>> {
        let instance = |on: ShareOn<G>| match on {
            ShareOn::Gpu(_) => None,
            ShareOn::Instance(spec) => Some(spec),
        };
        match self {
            Self::Mig(specs) => specs.clone(),
            Self::Compute { within, .. } => vec![*within],
            Self::Mps { on, .. } => instance(*on).into_iter().collect(),
            Self::Tasks(tasks) => tasks.devices().filter_map(instance).collect(),
            Self::Whole(_) => Vec::new(),
        }
    }
}

/// A grant, and the power cap that goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeGrant<G = GpuIndex> {
    /// The job's grant.
    pub grant: Grant<G>,
    /// Power cap of each of its GPUs, whole watts; `None`: the job asks for none, and counts as the limit that each GPU has.
    pub cap_w: Option<u16>,
}

impl<G> From<Grant<G>> for NodeGrant<G> {
    /// Without a cap.
    fn from(grant: Grant<G>) -> Self {
        Self { grant, cap_w: None }
    }
}
