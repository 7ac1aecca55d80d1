//! Amounts that must not be mixed up.

use std::fmt;

/// An amount of device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// `mib` times 2^20 bytes, at most `u64::MAX`.
    #[must_use]
    pub const fn from_mib(mib: u64) -> Bytes {
        Bytes(mib.saturating_mul(1 << 20))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0)
    }
}

/// A number of warps. A task's grid may have 2^64 - 1 blocks of 32 warps, so sums need more than 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Warps(pub u128);
