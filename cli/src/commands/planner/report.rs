//! What one round did, in lines for the log.

/// Its lines, and whether Slurm refused anything.
#[derive(Default)]
pub(super) struct Report {
    pub(super) lines: Vec<String>,
    pub(super) failed: bool,
}
