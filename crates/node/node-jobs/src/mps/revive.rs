//! Daemons that ended under their jobs are started again.
//!
//! A client that lost its daemon has lost its contexts. A new daemon is started when no client is left, so that nothing of the
//! old one is needed any more; until then the task broker grants nothing on the device. The broker itself cannot start it: it
//! lacks the capability to become the daemon's user.

use error_chain::Chain;

use super::{ensure, process, runs};
use crate::settings::Settings;
use node_driver::deadline::Deadline;
use node_driver::nvml::{Nvml, NvmlError};
use node_journal::own_dirs::StateError;
use node_journal::{DaemonRecord, Entry, Journal, Phase};

/// Outcome of a look for dead daemons.
#[derive(Debug, Default)]
pub struct Revived {
    /// Keys of the daemons that run again.
    pub started: Vec<String>,
    /// Things that could not be done.
    pub problems: Vec<String>,
}

/// Starts the daemons of these jobs again that ended and that no process needs any more. The caller holds the daemons' locks.
pub fn revive(
    settings: &Settings,
    journal: &Journal,
    nvml: &Nvml,
    entries: &[Entry],
    deadline: &Deadline,
) -> Result<Revived, StateError> {
    let mut revived = Revived::default();
    for (record, entry) in dead(journal, entries)? {
        let done = match has_clients(settings, nvml, &record, entry) {
            Ok(true) => continue,
            Ok(false) => ensure(settings, journal, &record.key, entry, &record.device, deadline)
                .map(drop)
                .map_err(|e| Chain(&e).to_string()),
            Err(e) => Err(format!("MPS daemon {} is not started again: {}", record.key, Chain(&e))),
        };
        match done {
            Ok(()) => revived.started.push(record.key),
            Err(why) => revived.problems.push(why),
        }
    }
    Ok(revived)
}

/// The recorded daemons that do not run, each with a job that needs it.
pub fn dead<'a>(
    journal: &Journal,
    entries: &'a [Entry],
) -> Result<Vec<(DaemonRecord, &'a Entry)>, StateError> {
    let (daemons, _damaged) = journal.daemons()?.into_parts();
    let needs = |entry: &&Entry, key: &str| {
        entry.phase == Phase::Ready && entry.boot == journal.boot() && entry.daemons().contains(&key)
    };
    // One without a process is being started.
    let ended = daemons.into_iter().filter(|record| record.process.is_some() && !runs(record));
    Ok(ended
        .filter_map(|record| {
            let entry = entries.iter().find(|entry| needs(entry, &record.key))?;
            Some((record, entry))
        })
        .collect())
}

/// Tells whether a process other than the daemon's own is on a device that the daemon serves. `entry` is of a job that has them.
pub fn has_clients(
    settings: &Settings,
    nvml: &Nvml,
    record: &DaemonRecord,
    entry: &Entry,
) -> Result<bool, NvmlError> {
    let own = process::Own::of(settings, &record.key, record.uid);
    for uuid in record.device.split(',') {
        if nvml.usage(entry.gpu_with(uuid), uuid)?.processes.iter().any(|(pid, _)| !own.has(*pid)) {
            return Ok(true);
        }
    }
    Ok(false)
}
