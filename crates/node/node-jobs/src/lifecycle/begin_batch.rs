//! Notes that a batch script begins.

use geometry::JobId;

use super::job::require_root;
use crate::fault::Fault;
use crate::settings::Settings;
use node_driver::deadline::Deadline;
use node_journal::lock::Locks;
use node_journal::{Entry, Journal};

/// Notes that a job's batch script begins, see [`Entry::begun`]. A job that the journal does not know is no error.
///
/// # Errors
///
/// Not root, another process works on the job for too long, or the journal cannot be used.
pub fn begin_batch(settings: &Settings, job: JobId) -> Result<(), Fault> {
    require_root()?;
    let deadline = Deadline::after(settings.operation_timeout());
    let _locks = Locks::for_job(&settings.node.state_dir, job, &[], &[], &deadline)?;
    let journal = Journal::open(&settings.node.state_dir)?;
    match journal.job(job)? {
        Some(entry) => Ok(journal.note(&Entry { begun: true, ..entry })?),
        None => Ok(()),
    }
}
