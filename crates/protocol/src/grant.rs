//! What a job gets on one node.
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

impl<G: Copy> MigSpec<G> {
    fn try_map<H, E>(self, number: impl FnOnce(G) -> Result<H, E>) -> Result<MigSpec<H>, E> {
        Ok(MigSpec { gpu: number(self.gpu)?, profile: self.profile, start: self.start })
    }
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

/// Where an MPS share lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShareOn<G = GpuIndex> {
    /// On a GPU without MIG.
    Gpu(G),
    /// Inside this instance.
    Instance(MigSpec<G>),
}

impl<G: Copy> ShareOn<G> {
    /// The GPU in either case.
    #[must_use]
    pub fn gpu(self) -> G {
        match self {
            Self::Gpu(gpu) => gpu,
            Self::Instance(spec) => spec.gpu,
        }
    }
}

/// What a job gets on one node: nothing is left to choose for those who carry it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant<G = GpuIndex> {
    /// Instances of its own, one or more.
    Mig(Vec<MigSpec<G>>),
    /// A compute instance of its own. Other jobs may have compute instances in the same GPU instance.
    Compute {
        /// The GPU instance, whose memory and cache they share.
        within: MigSpec<G>,
        /// Its part that is the job's.
        part: ComputeSpec,
        /// Memory that the job says it needs, MiB. Nothing holds it to that.
        mem_mib: u64,
    },
    /// A share.
    Mps {
        /// Of what.
        on: ShareOn<G>,
        /// Memory limit, MiB.
        mem_mib: u64,
        /// Share of that device's SMs, percent, 1 to 100.
        threads: u8,
    },
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
            Self::Whole(gpus) => gpus.clone(),
        };
        gpus.sort_unstable();
        gpus.dedup();
        gpus
    }

    /// The GPU instances, in the order the job sees them; of a share or compute instance inside one, that one.
    #[must_use]
    pub fn instances(&self) -> &[MigSpec<G>] {
        match self {
            Self::Mig(specs) => specs,
            Self::Compute { within, .. } => std::slice::from_ref(within),
            Self::Mps { on: ShareOn::Instance(spec), .. } => std::slice::from_ref(spec),
            Self::Mps { on: ShareOn::Gpu(_), .. } | Self::Whole(_) => &[],
        }
    }

    /// The same grant with its GPUs counted in another way.
    ///
    /// # Errors
    ///
    /// The first of `number`'s.
    pub fn try_map<H, E>(&self, number: impl Fn(G) -> Result<H, E>) -> Result<Grant<H>, E> {
        Ok(match self {
            Self::Mig(specs) => {
                Grant::Mig(specs.iter().map(|s| s.try_map(&number)).collect::<Result<_, _>>()?)
            }
            Self::Compute { within, part, mem_mib } => {
                Grant::Compute { within: within.try_map(number)?, part: *part, mem_mib: *mem_mib }
            }
            Self::Mps { on, mem_mib, threads } => {
                let on = match on {
                    ShareOn::Gpu(gpu) => ShareOn::Gpu(number(*gpu)?),
                    ShareOn::Instance(spec) => ShareOn::Instance(spec.try_map(&number)?),
                };
                Grant::Mps { on, mem_mib: *mem_mib, threads: *threads }
            }
            Self::Whole(gpus) => Grant::Whole(gpus.iter().map(|g| number(*g)).collect::<Result<_, _>>()?),
        })
    }
}

/// A grant, and the power cap that goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeGrant<G = GpuIndex> {
    /// What the job gets.
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
