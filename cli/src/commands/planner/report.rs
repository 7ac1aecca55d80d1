//! What one round says, and whether all of it was done.

/// What one round did.
#[derive(Default)]
pub(super) struct Report {
    pub(super) lines: Vec<String>,
    pub(super) failed: bool,
}
