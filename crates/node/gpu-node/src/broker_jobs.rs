//! The task broker and the jobs that it has to serve, for a reconciliation and for whoever looks.

use std::collections::HashSet;

use error_chain::Chain;
use geometry::JobId;
use node_jobs::Settings;
use node_jobs::broker::{ANSWER, is_served, serve};
use node_journal::{Entry, Journal, Phase};
use task_control::{Broker, ControlError};

/// Findings and changes of one look at the broker.
#[derive(Debug, Default)]
pub(crate) struct BrokerSeen {
    /// Did not run, and was started for the jobs that need it.
    pub(crate) started: bool,
    /// Jobs that it still had although nobody else knows them.
    pub(crate) ended: Vec<JobId>,
    /// Things that could not be done.
    pub(crate) problems: Vec<String>,
}

/// Lets the broker serve exactly the jobs of these entries, those that stay.
pub(crate) fn reconcile(settings: &Settings, journal: &Journal, kept: &[Entry]) -> BrokerSeen {
    let mut seen = BrokerSeen::default();
    let live: Vec<&Entry> = kept.iter().filter(|e| is_served(e, journal.boot())).collect();
    let broker = Broker::at(&settings.node.run_dir, ANSWER);
    let known = match broker.status() {
        Ok(status) => status.jobs.iter().map(|job| job.job).collect(),
        Err(ControlError::NotRunning { .. }) if live.is_empty() => return seen,
        Err(ControlError::NotRunning { .. }) => {
            seen.started = true;
            HashSet::new()
        }
        Err(e) => {
            seen.problems.push(Chain(&e).to_string());
            return seen;
        }
    };
    let mut problem = |e: &dyn std::error::Error| seen.problems.push(Chain(e).to_string());
    for entry in live.iter().filter(|e| !known.contains(&e.job)) {
        if let Err(e) = serve(settings, journal, entry) {
            problem(&e);
        }
    }
    for job in known.into_iter().filter(|job| !live.iter().any(|e| e.job == *job)) {
        match broker.end(job) {
            Ok(_) => seen.ended.push(JobId(job)),
            Err(e) => problem(&e),
        }
    }
    if live.is_empty()
        && let Err(e) = broker.stop()
        && !matches!(e, ControlError::NotRunning { .. })
    {
        problem(&e);
    }
    seen
}

/// Tells whether jobs here need the task broker and it does not run. False if that cannot be found out.
#[must_use]
pub fn lacks_broker(settings: &Settings) -> bool {
    let needed = || {
        let journal = Journal::open(&settings.node.state_dir).ok()?;
        let (entries, _damaged) = journal.jobs().ok()?.into_parts();
        Some(entries.iter().any(|e| e.phase == Phase::Ready && is_served(e, journal.boot())))
    };
    let runs = || {
        let status = Broker::at(&settings.node.run_dir, ANSWER).status();
        !matches!(status, Err(ControlError::NotRunning { .. }))
    };
    needed() == Some(true) && !runs()
}

/// Lists the complaints of `tessera doctor` about the broker: it does not run though jobs need it, or has other jobs.
pub(crate) fn complaints(settings: &Settings, journal: &Journal, entries: &[Entry]) -> Vec<String> {
    let needed: HashSet<u32> = entries
        .iter()
        .filter(|e| e.phase == Phase::Ready && is_served(e, journal.boot()))
        .map(|e| e.job)
        .collect();
    let known: HashSet<u32> = match Broker::at(&settings.node.run_dir, ANSWER).status() {
        Ok(status) => status.jobs.iter().map(|job| job.job).collect(),
        Err(ControlError::NotRunning { .. }) if needed.is_empty() => return Vec::new(),
        Err(e) => return vec![Chain(&e).to_string()],
    };
    let starting = |job: &u32| entries.iter().any(|e| e.job == *job);
    let missing = needed.difference(&known).map(|job| format!("the task broker does not know job {job}"));
    let stray = known.iter().filter(|job| !starting(job));
    let stray = stray.map(|job| format!("the task broker still has job {job}, which is not journalled"));
    missing.chain(stray).collect()
}
