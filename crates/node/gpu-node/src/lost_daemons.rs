//! MPS daemons that ended under their jobs.

use node_driver::nvml::Nvml;
use node_jobs::Settings;
use node_jobs::mps::{dead, has_clients};
use node_journal::{DaemonRecord, Entry, Journal};

/// Tells whether a daemon ended under a job here and could be started again. False if that cannot be
/// found out.
#[must_use]
pub fn lacks_daemon(settings: &Settings) -> bool {
    let look = || {
        let journal = Journal::open(&settings.node.state_dir).ok()?;
        let (entries, _damaged) = journal.jobs().ok()?.into_parts();
        let dead = dead(&journal, &entries).ok()?;
        if dead.is_empty() {
            return Some(false);
        }
        let nvml = Nvml::load(&settings.node.nvml_library).ok()?;
        let may_start = |(record, entry): &(DaemonRecord, &Entry)| {
            matches!(has_clients(settings, &nvml, record, entry), Ok(false))
        };
        Some(dead.iter().any(may_start))
    };
    look() == Some(true)
}
