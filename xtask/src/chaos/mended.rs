//! When a fault was mended.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// When a fault was mended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mended {
    pub(super) moment: Instant,
    /// Seconds since 1970, to compare with what Slurm says of jobs.
    pub(super) second: u64,
}

impl Mended {
    pub(super) fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { moment: Instant::now(), second: since.as_secs() }
    }
}
