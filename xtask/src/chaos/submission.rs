//! A submission under way.

use std::process::Child;

/// A submission under way.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) sbatch: Child,
    pub(super) order: u32,
    pub(super) kind: &'static str,
    /// Its job is cancelled so many milliseconds later.
    pub(super) cancel_after: Option<u32>,
}
