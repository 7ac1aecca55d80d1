//! Journals why a job gets nothing here, so that its steps can say so.

use super::give_back::{Released, finish};
use super::job::{JobContext, require_root};
use crate::fault::Fault;
use crate::settings::Settings;
use node_driver::deadline::Deadline;
use node_journal::lock::Locks;
use node_journal::{Entry, Journal, Phase};

/// Journals why a job cannot be given what it was granted. Its steps are refused with that reason.
///
/// What an earlier start of the job left here is taken back first, because its entry is the only trace of it. If
/// [`JobContext::slurmd`] is gone the job is not journalled: nobody would remove the entry.
///
/// # Errors
///
/// Not root, another process works on the job for too long, or the journal cannot be used.
pub fn refuse(settings: &Settings, job: &JobContext, why: &str) -> Result<Released, Fault> {
    require_root()?;
    let deadline = Deadline::after(settings.operation_timeout());
    let journal = Journal::open(&settings.node.state_dir)?;
    let old = journal.job(job.job)?;
    let daemons: Vec<String> = old.iter().flat_map(|old| old.daemons()).map(str::to_owned).collect();
    let _locks = Locks::for_job(&settings.node.state_dir, job.job, &[], &daemons, &deadline)?;
    let damaged = journal.set_aside_job(job.job)?;
    let mut left = match journal.job(job.job)? {
        Some(old) => finish(settings, &journal, &old)?,
        None => Released::default(),
    };
    left.problems.extend(damaged.iter().map(ToString::to_string));
    if !job.abandoned() {
        journal.store(&Entry { phase: Phase::Failed(why.to_owned()), ..job.first_entry(journal.boot()) })?;
    }
    Ok(left)
}
