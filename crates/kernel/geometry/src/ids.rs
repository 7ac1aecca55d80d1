//! Newtypes for the numbers that Slurm and NVML pass as plain integers.

use std::fmt;

/// A Slurm job id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u32);

/// A Unix user id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(pub u32);

/// A GPU of one node, by the number that Slurm gives it: its bit in the node's GRES bitmap, from 0, in the order of the
/// device files in gres.conf. tessera.toml lists a node's GPUs in NVML's order, which must be the same order; `tessera
/// doctor` checks it. The node side translates a grant's numbers to NVML's before it acts on them, because gres.conf may
/// leave out a GPU or list them in another order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuIndex(pub u16);

/// A GPU instance profile's id, as `nvidia-smi mig -lgip` prints it. It is unique only within one GPU model, and
/// differs from the enum value that NVML's profile queries take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileId(pub u32);

/// A position on a GPU in NVML's placement units (memory slices; a third of one on the RTX PRO 6000).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slice(pub u8);

/// A run of placement units on one GPU: `start..start + size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Placement {
    /// First unit, counted from 0.
    pub start: Slice,
    /// Number of units, at least 1.
    pub size: u8,
}

impl Placement {
    /// The units as a bit mask, bit 0 for unit 0. No GPU has more than 16 units; higher ones are cut off.
    #[must_use]
    #[inline]
    pub fn mask(self) -> u16 {
        let ones = if self.size >= 16 { u16::MAX } else { (1 << self.size) - 1 };
        u32::from(ones).checked_shl(u32::from(self.start.0)).map_or(0, |m| (m & 0xffff) as u16)
    }
}

macro_rules! display_number {
    ($($t:ty),*) => { $(impl fmt::Display for $t {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { self.0.fmt(f) }
    })* };
}
display_number!(JobId, Uid, GpuIndex, ProfileId, Slice);
