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
            Self::Mps { on, .. } => vec![on.gpu()],
            Self::Whole(gpus) => gpus.clone(),
        };
        gpus.sort_unstable();
        gpus.dedup();
        gpus
    }

    /// The instances, in the order the job sees them; of a share inside an instance, that one.
    #[must_use]
    pub fn instances(&self) -> &[MigSpec<G>] {
        match self {
            Self::Mig(specs) => specs,
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
