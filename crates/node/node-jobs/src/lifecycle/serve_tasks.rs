//! A step's start: its job's tasks must find the broker and their MPS daemon, which may have died since the prolog.

use std::slice::from_ref;
use std::time::Duration;

use crate::fault::Fault;
use crate::settings::Settings;
use crate::{broker, mps};
use node_driver::deadline::Deadline;
use node_driver::nvml::Nvml;
use node_driver::process::is_alone_with_its_job;
use node_journal::lock::{LockError, Locks};
use node_journal::{Entry, Journal};

/// Longest time that a step waits for others that work on its MPS daemon.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes sure that the task broker runs and knows the job of this entry, and starts MPS daemons of it again that ended and
/// that no process needs any more. Does nothing for jobs of other kinds, nor in a job's own PID namespace: daemons outside of it
/// are not seen there, and those inside end with the job, so the health check starts them. The answer is what could not be done,
/// for the log: a device without its daemon grants nothing, but the job may have others.
///
/// # Errors
///
/// The broker cannot be started, or does not take the job.
pub fn serve_tasks(settings: &Settings, journal: &Journal, entry: &Entry) -> Result<Vec<String>, Fault> {
    if entry.tasks.is_none() || is_alone_with_its_job() {
        return Ok(Vec::new());
    }
    let problems =
        daemons(settings, journal, entry).unwrap_or_else(|e| vec![error_chain::Chain(&e).to_string()]);
    broker::serve(settings, journal, entry)?;
    Ok(problems)
}

fn daemons(settings: &Settings, journal: &Journal, entry: &Entry) -> Result<Vec<String>, Fault> {
    if mps::dead(journal, from_ref(entry))?.is_empty() {
        return Ok(Vec::new());
    }
    let deadline = Deadline::after(settings.operation_timeout().min(PATIENCE));
    let keys: Vec<String> = entry.daemons().into_iter().map(str::to_owned).collect();
    let _locks = match Locks::for_job(&settings.node.state_dir, entry.job(), &[], &keys, &deadline) {
        // Whoever has it starts the daemon, or the health check does.
        Err(LockError::Timeout { .. }) => return Ok(Vec::new()),
        locks => locks?,
    };
    let nvml = Nvml::load(&settings.node.nvml_library)?;
    Ok(mps::revive(settings, journal, &nvml, from_ref(entry), &deadline)?.problems)
}
