//! A step's start: its job's tasks must find the broker, which may have died since the prolog.

use crate::fault::Fault;
use crate::journal::{Entry, Journal};
use crate::settings::Settings;
use crate::tasks;

/// Makes sure that the task broker runs and knows the job of this entry. Does nothing for jobs of other kinds.
///
/// # Errors
///
/// It cannot be started, or does not take the job.
pub fn serve_tasks(settings: &Settings, journal: &Journal, entry: &Entry) -> Result<(), Fault> {
    Ok(tasks::serve(settings, journal, entry)?)
}
