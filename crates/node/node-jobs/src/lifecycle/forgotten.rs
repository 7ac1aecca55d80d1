//! Decides whether the journal has a job that slurmctld may have forgotten.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use geometry::JobId;

use crate::settings::Settings;
use node_journal::{Contents, Entry, Journal};

/// Tells whether the journal has a job.
#[must_use]
pub fn is_journalled(settings: &Settings, job: JobId) -> bool {
    Journal::open(&settings.node.state_dir)
        .is_ok_and(|journal| journal.job(job).is_ok_and(|entry| entry.is_some()))
}

/// Tells whether some other job than `own` is journalled, without a step among `live`, for longer than `after`. slurmctld
/// may have forgotten it, and its epilog will never run then. At most one caller is told so in that time.
#[must_use]
pub fn seems_forgotten(settings: &Settings, own: JobId, live: &HashSet<JobId>, after: Duration) -> bool {
    let Ok(journal) = Journal::open(&settings.node.state_dir) else { return false };
    // Damaged files are for the reconciliation that this may lead to.
    let Ok((entries, _damaged)) = journal.jobs().map(Contents::into_parts) else { return false };
    let stale = |e: &Entry| {
        e.job() != own && !live.contains(&e.job()) && journal.age(e.job()).is_some_and(|age| age > after)
    };
    entries.iter().any(stale) && first_in(&settings.node.state_dir.join("asked"), after)
}

/// Tells whether this is the first call within that time, and stamps the time of the call.
fn first_in(stamp: &Path, time: Duration) -> bool {
    let last = std::fs::symlink_metadata(stamp).and_then(|meta| meta.modified());
    if last.is_ok_and(|at| at.elapsed().is_ok_and(|ago| ago < time)) {
        return false;
    }
    std::fs::write(stamp, "").is_ok()
}
