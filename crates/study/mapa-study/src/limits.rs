//! How far the exact searches go before they take the best match so far.
//!
//! Limits count steps, never time, so that an answer does not depend on the machine. One step is about one placement
//! of a rank on a GPU: some hundred nanoseconds.

/// Most free GPUs with different links that a search takes: a set of them fits in 16 bits.
pub(crate) const MOST_FREE: usize = 16;

/// Most steps of a search for an edge list.
pub(crate) const MOST_STEPS: u32 = 60_000;

/// Most steps where only the sum of an order depends on them, and for sums of many sets.
pub(crate) const FEW_STEPS: u32 = 15_000;

/// Most steps for patterns with lookup tables, which end the searches that steps do not.
pub(crate) const MOST_TABLED: u32 = 4 * MOST_STEPS;

/// Most free GPUs of an edge list for whose best sum [`MOST_STEPS`] are spent: over more, no number of steps that a
/// controller has time for proves it.
pub(crate) const MOST_PROVEN: usize = 8;

/// Most steps under Equation 2: placements of one rank, and as many for each round of exchanges.
pub(crate) const MOST_PLACED: u32 = 20_000_000;

/// Most steps under Equation 2 for an edge list, some fifty milliseconds: what a user writes must not hold a
/// controller up.
pub(crate) const MOST_PLACED_LISTED: u32 = 400_000;
