//! Lines for the log on one round.

use std::collections::HashSet;

/// Lines of a round, and whether Slurm refused anything.
#[derive(Default)]
pub(super) struct Report {
    pub(super) lines: Vec<String>,
    pub(super) failed: bool,
    /// Jobs whose plan was made, kept or withdrawn.
    pub(super) judged: HashSet<u32>,
}
