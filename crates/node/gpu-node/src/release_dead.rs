//! The release of a job that was found dead.

use node_jobs::{Fault, Released, Settings, release_if};
use node_journal::Entry;

/// Takes back what a job had that was found dead with this entry. Does nothing if the job has another entry by now: it may
/// have been started again while whoever asked Slurm waited for locks.
///
/// # Errors
///
/// As [`node_jobs::release`].
pub fn release_dead(settings: &Settings, dead: &Entry) -> Result<Released, Fault> {
    release_if(settings, dead.job(), &|now| now == dead)
}
