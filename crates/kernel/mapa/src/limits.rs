//! Limits of searches, after which they take the best match so far.
//!
//! Limits count steps and orders, never time, so that an answer does not depend on the machine. One step is about one
//! placement of a rank on a GPU: some ten nanoseconds.

/// Most free GPUs with different links that a search takes: a set of them fits in 16 bits.
pub const MOST_FREE: usize = 16;

/// Every order is searched where no more than this many exist that are not alike: as many as eight ranks on
/// eight GPUs have.
pub(crate) const MOST_ORDERS: u64 = 40_320;

/// Most steps of a search among more orders, a few milliseconds.
pub(crate) const MOST_STEPS: u32 = 80_000;

/// Steps that a search for an order has at least.
pub(crate) const FEW_STEPS: u32 = 15_000;
