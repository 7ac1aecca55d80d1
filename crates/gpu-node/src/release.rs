//! Takes back what a job had: the epilog.
//!
//! Asks the driver nothing: instances stay, idle, for the next job of their shape. What cannot be taken back at once
//! never fails the epilog, which would drain the node; it is reported, and reconciliation tries again.

use placement::JobId;

use crate::deadline::Deadline;
use crate::devices::{Access, DeviceError, Devices};
use crate::fault::Fault;
use crate::journal::{Entry, Journal, Phase, ShareRecord};
use crate::lock::{LockError, Locks};
use crate::mps;
use crate::realise::{chain, require_root};
use crate::settings::Settings;

/// What a release did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// False where the journal knows no such job: nothing to do.
    pub known: bool,
    /// What could not be taken back; for the log.
    pub problems: Vec<String>,
}

/// Takes back what a job had. A job that the journal does not know is no error.
///
/// # Errors
///
/// Not root, or the journal cannot be read or written: the node is unfit.
pub fn release(settings: &Settings, job: JobId) -> Result<Released, Fault> {
    require_root()?;
    let journal = Journal::open(&settings.state_dir)?;
    let Some(entry) = journal.job(job)? else { return Ok(Released::default()) };
    let deadline = Deadline::after(settings.operation_timeout);
    // No GPU's lock: what is the job's alone can be given back while another job's prolog keeps the GPU, for
    // instances count as held until the entry is gone, and the entry goes last.
    let daemon = entry.share.as_ref().map(|s| s.daemon.as_str());
    let _locks = match Locks::for_job(&settings.state_dir, job, &[], daemon, &deadline) {
        Err(LockError::Dir(e)) => return Err(e.into()),
        Err(e @ LockError::Timeout { .. }) => {
            // Not a reason to drain the node: nothing is held for the job any more, and reconciliation does the rest.
            let why = chain(&e);
            journal.store(&Entry {
                phase: Phase::Failed(format!("its release was cut short: {why}")),
                ..entry
            })?;
            return Ok(Released { known: true, problems: vec![why] });
        }
        Ok(locks) => locks,
    };
    match journal.job(job)? {
        Some(entry) => finish(settings, &journal, &entry),
        None => Ok(Released { known: true, problems: Vec::new() }),
    }
}

/// Takes back everything and forgets the job. The caller holds the locks.
pub(crate) fn finish(settings: &Settings, journal: &Journal, entry: &Entry) -> Result<Released, Fault> {
    let problems = revoke(settings, journal, entry)?;
    journal.remove(entry.job())?;
    Ok(Released { known: true, problems })
}

/// Takes back device nodes and the share, but keeps the entry.
pub(crate) fn revoke(settings: &Settings, journal: &Journal, entry: &Entry) -> Result<Vec<String>, Fault> {
    let mut problems = Vec::new();
    if let Some(share) = &entry.share
        && shared_with_others(journal, entry, share)?
    {
        // The others use the same daemon and, as the same user, the same device nodes.
        return Ok(problems);
    }
    if let Some(share) = &entry.share
        && let Some(daemon) = journal.daemon(&share.daemon)?
        && let Err(e) = mps::stop(settings, journal, &daemon)
    {
        problems.push(chain(&e));
    }
    if entry.device_nodes.is_empty() {
        return Ok(problems);
    }
    let devices = Devices::open(settings)?;
    for name in &entry.device_nodes {
        let closed = if name.contains('/') { Access::CAP_CLOSED } else { Access::CLOSED };
        match devices.set(name, closed) {
            Err(DeviceError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => problems.push(chain(&e)),
            Ok(()) => {}
        }
    }
    Ok(problems)
}

fn shared_with_others(journal: &Journal, entry: &Entry, share: &ShareRecord) -> Result<bool, Fault> {
    let same = |other: &Entry| {
        other.job != entry.job
            && other.holds()
            && other.boot == entry.boot
            && other.share.as_ref().is_some_and(|s| s.daemon == share.daemon)
    };
    Ok(journal.jobs(&mut Vec::new())?.iter().any(same))
}
