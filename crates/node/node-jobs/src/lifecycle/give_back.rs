//! Takes back what a job has, under locks that the caller holds.

use error_chain::Chain;

use crate::access::{self, Devices};
use crate::fault::Fault;
use crate::power::{self, Settled};
use crate::settings::Settings;
use crate::{broker, fence, mps};
use node_journal::lock::Locks;
use node_journal::{Entry, Journal};

/// Outcome of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// False where the journal knows no such job: nothing to do.
    pub known: bool,
    /// Things that could not be taken back; for the log.
    pub problems: Vec<String>,
    /// Power limits that somebody else has changed since they were set, and that stay; for the log.
    pub notes: Vec<String>,
}

/// Takes back everything and forgets the job. The caller holds the locks.
pub fn finish(settings: &Settings, journal: &Journal, entry: &Entry) -> Result<Released, Fault> {
    // Whatever becomes of its limits: reconciliation finishes what their records say.
    let (Settled { mut problems, notes }, _power) = power::end(settings, journal, entry)
        .unwrap_or_else(|e| (Settled { problems: vec![Chain(&e).to_string()], ..Settled::default() }, None));
    let (more, _nodes) = revoke(settings, journal, entry)?;
    problems.extend(more);
    journal.remove(entry.job())?;
    Ok(Released { known: true, problems, notes })
}

/// Takes back device nodes, the share and the limits of the control group, but keeps the entry. The nodes' lock comes with the answer, where it could be
/// had: until the entry is changed nobody else may count who is on the GPUs.
pub(super) fn revoke(
    settings: &Settings,
    journal: &Journal,
    entry: &Entry,
) -> Result<(Vec<String>, Option<Locks>), Fault> {
    let mut problems = Vec::new();
    problems.extend(broker::end(settings, entry));
    revoke_share(settings, journal, entry, &mut problems)?;
    problems.extend(fence::end(settings, entry));
    if entry.gpus.is_empty() || !settings.node.manage_device_nodes {
        return Ok((problems, None));
    }
    let devices = Devices::open(settings)?;
    let nodes = Locks::for_nodes(&settings.node.state_dir, &access::lock_deadline());
    let nodes = nodes.map_err(|e| problems.push(Chain(&e).to_string())).ok();
    revoke_caps(settings, journal, &devices, entry, &mut problems)?;
    let failed = access::settle(settings, journal, &devices, entry, false)?;
    problems.extend(failed.iter().filter(|e| !e.is_absent()).map(|e| Chain(e).to_string()));
    Ok((problems, nodes))
}

/// Ends the job's share or seats, unless other jobs use the same daemon.
fn revoke_share(
    settings: &Settings,
    journal: &Journal,
    entry: &Entry,
    problems: &mut Vec<String>,
) -> Result<(), Fault> {
    for key in entry.daemons() {
        let others = mps::holder(journal, key, Some(entry.job()))?.is_some();
        let Some(daemon) = journal.daemon(key)? else { continue };
        let done = if others {
            mps::share_changes(settings, journal, &daemon, entry.job(), false)
        } else {
            mps::stop(settings, journal, &daemon, Some(entry.job()))
        };
        problems.extend(done.err().map(|e| Chain(&e).to_string()));
    }
    Ok(())
}

/// Sets the job's capability nodes as all other jobs want them: closed, unless another job is in the same GPU instance.
fn revoke_caps(
    settings: &Settings,
    journal: &Journal,
    devices: &Devices,
    entry: &Entry,
    problems: &mut Vec<String>,
) -> Result<(), Fault> {
    for (name, access) in access::caps_now(settings, journal, entry, false)? {
        match devices.set(&name, access) {
            // The driver takes an instance's nodes away with it.
            Err(e) if !e.is_absent() => problems.push(Chain(&e).to_string()),
            _ => {}
        }
    }
    Ok(())
}
