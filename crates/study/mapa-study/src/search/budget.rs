//! The steps that a search may still take.

/// Number of steps left; a search that reaches 0 has not proven its answer.
pub(crate) struct Budget(pub(crate) u32);
