//! Two of the three numbers of a GPU. The third is [`geometry::GpuIndex`], Slurm's. On many nodes they are equal, which is
//! why each has a type of its own.

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

/// Major number of the GPUs' device files.
pub const GPU_MAJOR: u32 = 195;

macro_rules! display_number {
    ($($t:ty),*) => { $(impl fmt::Display for $t {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { self.0.fmt(f) }
    })* };
}
display_number!(NvmlIndex, GpuMinor);

/// Slurm's number in the journal.
pub mod slurm_number {
    use geometry::GpuIndex;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes the number.
    ///
    /// # Errors
    ///
    /// As the serializer.
    pub fn serialize<S: Serializer>(number: &GpuIndex, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u16(number.0)
    }

    /// Reads a number.
    ///
    /// # Errors
    ///
    /// It is no number of a GPU.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<GpuIndex, D::Error> {
        u16::deserialize(from).map(GpuIndex)
    }
}
