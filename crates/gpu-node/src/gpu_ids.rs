//! The three numbers of a GPU. On many nodes they are equal, which is why each has a type of its own.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A GPU's place in NVML's list, from 0: NVML counts by PCI bus id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NvmlIndex(pub u16);

/// N of `/dev/nvidiaN`, given by the kernel driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GpuMinor(pub u32);

/// A GPU's place among the device files that gres.conf lists for the node, from 0: the bit in Slurm's GRES bitmap. What
/// slurmctld grants is counted so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SlurmGpu(pub u16);

macro_rules! display_number {
    ($($t:ty),*) => { $(impl fmt::Display for $t {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { self.0.fmt(f) }
    })* };
}
display_number!(NvmlIndex, GpuMinor, SlurmGpu);
