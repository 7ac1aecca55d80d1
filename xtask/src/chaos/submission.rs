//! A submission under way.

use std::process::Child;

/// A submission under way.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) sbatch: Child,
    pub(super) order: u32,
    pub(super) kind: &'static str,
    /// Milliseconds after which its job is cancelled.
    pub(super) cancel_after: Option<u32>,
}
