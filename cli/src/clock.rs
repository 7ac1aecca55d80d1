//! The time of day.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since the epoch, as Slurm counts.
pub(crate) fn epoch_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs())
}
