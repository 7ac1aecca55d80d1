//! Sets of a node's GPUs.

use std::fmt;

use geometry::GpuIndex;

/// A set of a node's GPUs. GPUs from index 64 on are in no set: no node has so many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuSet(u64);

impl GpuSet {
    /// No GPU.
    pub const EMPTY: Self = Self(0);

    /// The set whose bit `i` stands for GPU `i`.
    #[must_use]
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The set as a number: bit `i` stands for GPU `i`.
    #[must_use]
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Adds a GPU; ignores those from index 64 on.
    #[inline]
    pub fn insert(&mut self, gpu: GpuIndex) {
        self.0 |= 1_u64.checked_shl(u32::from(gpu.0)).unwrap_or(0);
    }

    /// Tells whether the GPU is in the set.
    #[must_use]
    #[inline]
    pub fn contains(self, gpu: GpuIndex) -> bool {
        self.0.checked_shr(u32::from(gpu.0)).is_some_and(|bits| bits & 1 == 1)
    }

    /// Number of GPUs.
    #[must_use]
    #[inline]
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// True if the set has no GPU.
    #[must_use]
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The GPUs that are in both sets.
    #[must_use]
    #[inline]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The GPUs in ascending order.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = GpuIndex> {
        (0..64_u16).map(GpuIndex).filter(move |g| self.contains(*g))
    }
}

impl fmt::Display for GpuSet {
    /// Ranges, ascending: `0-3,5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut gpus = self.iter().map(|g| g.0).peekable();
        let mut comma = "";
        while let Some(first) = gpus.next() {
            let mut last = first;
            while let Some(next) = gpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            write!(f, "{comma}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

impl FromIterator<GpuIndex> for GpuSet {
    #[inline]
    fn from_iter<I: IntoIterator<Item = GpuIndex>>(gpus: I) -> Self {
        let mut set = Self::EMPTY;
        gpus.into_iter().for_each(|g| set.insert(g));
        set
    }
}

/// A number of GPUs that a job must get from a group of them, such as a socket or a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The group. The groups of one job do not overlap.
    pub of: GpuSet,
    /// GPUs from the group, at least 1.
    pub n: usize,
}
