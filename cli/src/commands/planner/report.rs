//! Lines for the log on one round.

/// Lines of a round, and whether Slurm refused anything.
#[derive(Default)]
pub(super) struct Report {
    pub(super) lines: Vec<String>,
    pub(super) failed: bool,
}
