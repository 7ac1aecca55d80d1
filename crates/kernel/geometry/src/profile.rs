//! The GPU instance profiles of a model.

use crate::compute::ComputeProfile;
use crate::ids::{Placement, ProfileId, Slice};
use crate::size::gigabytes_as_mib;

/// A GPU instance profile of a model.
#[derive(Debug, PartialEq, Eq)]
pub struct Profile {
    /// The name that NVML gives it: `2g.10gb`.
    pub name: String,
    /// The id that `nvidia-smi mig -lgip` prints.
    pub id: ProfileId,
    /// The value that NVML's profile queries take; not the same as `id`.
    pub enum_value: u32,
    /// Compute slices of an instance.
    pub compute_slices: u8,
    /// Memory of an instance, MiB.
    pub memory_mib: u64,
    /// True if a capture gives `memory_mib`. If not, it is a cautious estimate.
    pub memory_known: bool,
    /// Streaming multiprocessors of an instance; estimated by compute slices if no capture gives them.
    pub sm: u32,
    /// Most instances of this profile on one GPU.
    pub max_instances: u32,
    /// Legal first units, ascending.
    pub starts: Vec<Slice>,
    /// Number of placement units that an instance takes.
    pub size: u8,
    /// The sizes of compute instances in it that do not take all of it, ascending.
    pub compute: Vec<ComputeProfile>,
}

impl Profile {
    /// A variant with other engines (`+me`, `-me`, `+gfx`): given only to a request that names it.
    #[must_use]
    #[inline]
    pub fn is_variant(&self) -> bool {
        self.name.contains(['+', '-'])
    }

    /// The gigabytes in the profile's name: 10 for `2g.10gb`.
    #[must_use]
    pub fn nominal_gb(&self) -> u32 {
        let after_dot = self.name.split_once('.').map_or("", |(_, rest)| rest);
        let digits = after_dot.len() - after_dot.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        after_dot[..digits].parse().unwrap_or(0)
    }

    /// The memory in the profile's name, MiB: 9537 for `2g.10gb`.
    #[must_use]
    pub fn nominal_mib(&self) -> u64 {
        gigabytes_as_mib(self.nominal_gb())
    }

    /// The placement that starts at `start`. Whether `start` is legal is for the caller: see `starts`.
    #[must_use]
    #[inline]
    pub fn at(&self, start: Slice) -> Placement {
        Placement { start, size: self.size }
    }

    /// The size of compute instance with so many slices; `None` also for all of the GPU instance's slices.
    #[must_use]
    #[inline]
    pub fn compute(&self, slices: u8) -> Option<&ComputeProfile> {
        self.compute.iter().find(|c| c.slices == slices)
    }

    /// The name of a compute instance with so many slices: `4c.7g.40gb`.
    #[must_use]
    pub fn compute_name(&self, slices: u8) -> String {
        format!("{slices}c.{}", self.name)
    }
}
