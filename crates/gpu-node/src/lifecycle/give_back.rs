//! Takes back what a job has, under locks that the caller holds.

use error_chain::Chain;

use crate::access::{self, Access, DeviceError, Devices};
use crate::fault::Fault;
use crate::journal::{Entry, Journal};
use crate::lock::Locks;
use crate::mps;
use crate::settings::Settings;

/// What a release did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// False where the journal knows no such job: nothing to do.
    pub known: bool,
    /// What could not be taken back; for the log.
    pub problems: Vec<String>,
}

/// Takes back everything and forgets the job. The caller holds the locks.
pub(super) fn finish(settings: &Settings, journal: &Journal, entry: &Entry) -> Result<Released, Fault> {
    let (problems, _nodes) = revoke(settings, journal, entry)?;
    journal.remove(entry.job())?;
    Ok(Released { known: true, problems })
}

/// Takes back device nodes and the share, but keeps the entry. The nodes' lock comes with the answer, where it could be
/// had: until the entry is changed nobody else may count who is on the GPUs.
pub(super) fn revoke(
    settings: &Settings,
    journal: &Journal,
    entry: &Entry,
) -> Result<(Vec<String>, Option<Locks>), Fault> {
    let mut problems = Vec::new();
    revoke_share(settings, journal, entry, &mut problems)?;
    if entry.gpus.is_empty() || !settings.manage_device_nodes {
        return Ok((problems, None));
    }
    let devices = Devices::open(settings)?;
    let nodes = Locks::for_nodes(&settings.state_dir, &access::lock_deadline());
    let nodes = nodes.map_err(|e| problems.push(Chain(&e).to_string())).ok();
    let failed = access::settle(settings, journal, &devices, entry, false)?;
    problems.extend(failed.iter().filter(|e| !missing(e)).map(|e| Chain(e).to_string()));
    Ok((problems, nodes))
}

/// The driver takes an instance's nodes away with it.
fn missing(e: &DeviceError) -> bool {
    matches!(e, DeviceError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
}

/// Ends the job's share and closes its capability nodes, unless other jobs use the same.
fn revoke_share(
    settings: &Settings,
    journal: &Journal,
    entry: &Entry,
    problems: &mut Vec<String>,
) -> Result<(), Fault> {
    if let Some(share) = &entry.share
        && mps::holder(journal, &share.daemon, Some(entry.job()))?.is_some()
    {
        // The others use the same daemon and, as the same user, the same device nodes.
        if let Some(daemon) = journal.daemon(&share.daemon)?
            && let Err(e) = mps::share_changes(settings, journal, &daemon, entry.job(), false)
        {
            problems.push(Chain(&e).to_string());
        }
        return Ok(());
    }
    if let Some(share) = &entry.share
        && let Some(daemon) = journal.daemon(&share.daemon)?
        && let Err(e) = mps::stop(settings, journal, &daemon, Some(entry.job()))
    {
        problems.push(Chain(&e).to_string());
    }
    let mut caps = entry.device_nodes.iter().filter(|name| name.contains('/')).peekable();
    if caps.peek().is_none() {
        return Ok(());
    }
    let devices = Devices::open(settings)?;
    for name in caps {
        match devices.set(name, Access::CAP_CLOSED) {
            Err(e) if !missing(&e) => problems.push(Chain(&e).to_string()),
            _ => {}
        }
    }
    Ok(())
}
