//! Frees, after a crash, what no live job owns.

use std::collections::HashSet;

use error_chain::Chain;
use geometry::JobId;

use super::give_back::finish;
use super::job::require_root;
use crate::access::{Devices, GpuFacts, device_nodes};
use crate::deadline::Deadline;
use crate::fault::Fault;
use crate::gpu_ids::NvmlIndex;
use crate::journal::{DamagedFile, Entry, Journal, Phase};
use crate::lock::Locks;
use crate::nvml::Nvml;
use crate::settings::Settings;
use crate::{mps, remnants};

/// What a reconciliation did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReconcileReport {
    /// Dead jobs whose release was finished.
    pub finished: Vec<JobId>,
    /// Half-made GPU instances that were destroyed: GPU, GPU instance id.
    pub destroyed: Vec<(NvmlIndex, u32)>,
    /// GPUs whose pending change of MIG mode was taken back.
    pub modes: Vec<NvmlIndex>,
    /// Device nodes that were given back or set right, relative to `dev_root`.
    pub device_nodes: Vec<String>,
    /// MPS daemons that were ended.
    pub daemons: Vec<String>,
    /// Journal files that could not be understood, where they are kept now.
    pub damaged: Vec<DamagedFile>,
    /// What could not be set right; for the log.
    pub problems: Vec<String>,
}

impl ReconcileReport {
    /// True where there was nothing to do.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }
}

/// Finishes what was interrupted. `live` are the jobs that are on this node now; `None` where that is not known: then
/// every job journalled since the node booted counts as live.
///
/// # Errors
///
/// Not root, the journal cannot be used, or another process works on the node until after the deadline. Everything
/// else is a problem in the report, and the rest is still done.
pub fn reconcile(settings: &Settings, live: Option<&HashSet<JobId>>) -> Result<ReconcileReport, Fault> {
    require_root()?;
    let deadline = Deadline::after(settings.operation_timeout);
    let _lock = Locks::for_node(&settings.state_dir, &deadline)?;
    let journal = Journal::open(&settings.state_dir)?;
    journal.sweep()?;
    let mut report = ReconcileReport::default();
    let mut kept = Vec::new();
    let (entries, damaged) = journal.jobs()?.into_parts();
    report.damaged = journal.set_aside_jobs(damaged)?;
    for entry in entries {
        if entry.is_live(journal.boot(), live) {
            kept.push(entry);
        } else {
            report.problems.extend(finish(settings, &journal, &entry)?.problems);
            report.finished.push(entry.job());
        }
    }
    let held_unknown = unknown_holders(&journal, &report, live)?;
    if held_unknown {
        let why = "device nodes and MPS daemons are left as they are: the journal of a live job is damaged";
        report.problems.push(why.to_owned());
    } else {
        end_daemons(settings, &journal, &kept, &mut report)?;
    }
    match Nvml::load(&settings.nvml_library) {
        Err(e) => report.problems.push(Chain(&e).to_string()),
        Ok(nvml) => {
            let gpus: Vec<NvmlIndex> = (0..nvml.count().unwrap_or(0)).map(NvmlIndex).collect();
            let cleared = remnants::clear(&nvml, &gpus, &kept);
            report.destroyed = cleared.destroyed;
            report.modes = cleared.modes;
            report.problems.extend(cleared.problems);
            if !held_unknown && let Err(e) = set_nodes(settings, &nvml, &kept, &mut report) {
                report.problems.push(Chain(&e).to_string());
            }
        }
    }
    Ok(report)
}

/// True where a damaged file belonged to a job that may be live: what it holds must not be taken from it.
fn unknown_holders(
    journal: &Journal,
    report: &ReconcileReport,
    live: Option<&HashSet<JobId>>,
) -> Result<bool, Fault> {
    let may_live = |name: &String| match (name.split('.').next().and_then(|j| j.parse().ok()), live) {
        (Some(job), Some(live)) => {
            live.contains(&JobId(job)) && !journal.job(JobId(job)).is_ok_and(|e| e.is_some())
        }
        (Some(_), None) => !report.damaged.is_empty(),
        (None, _) => false,
    };
    Ok(journal.bad_files()?.iter().any(may_live))
}

fn end_daemons(
    settings: &Settings,
    journal: &Journal,
    kept: &[Entry],
    report: &mut ReconcileReport,
) -> Result<(), Fault> {
    let wanted =
        |key: &str| kept.iter().any(|e| e.holds() && e.share.as_ref().is_some_and(|s| s.daemon == key));
    let (daemons, damaged) = journal.daemons()?.into_parts();
    report.damaged.extend(journal.set_aside_daemons(damaged)?);
    for daemon in daemons {
        if !wanted(&daemon.key) {
            match mps::stop(settings, journal, &daemon) {
                Ok(()) => report.daemons.push(daemon.key),
                Err(e) => report.problems.push(Chain(&e).to_string()),
            }
        }
    }
    for path in mps::still_there(settings) {
        report
            .problems
            .push(format!("{}: cannot be emptied: a process may still write to it", path.display()));
    }
    // Without a record: the file was damaged. The directory's owner is the daemon's user.
    for key in mps::left_dirs(settings) {
        if !wanted(&key) {
            match mps::stop_unrecorded(settings, &key) {
                Ok(()) => report.daemons.push(key),
                Err(e) => report.problems.push(Chain(&e).to_string()),
            }
        }
    }
    Ok(())
}

fn set_nodes(
    settings: &Settings,
    nvml: &Nvml,
    kept: &[Entry],
    report: &mut ReconcileReport,
) -> Result<(), Fault> {
    if !settings.manage_device_nodes {
        return Ok(());
    }
    let mut facts = Vec::new();
    for gpu in (0..nvml.count()?).map(NvmlIndex) {
        match nvml.minor(gpu) {
            Ok(minor) => facts.push(GpuFacts { gpu, minor }),
            // Lost: its node stays as it is, the others' are set right.
            Err(e) => report.problems.push(Chain(&e).to_string()),
        }
    }
    let devices = Devices::open(settings)?;
    let ready: Vec<Entry> = kept.iter().filter(|e| e.phase == Phase::Ready).cloned().collect();
    for (name, access) in device_nodes(settings, &devices, &facts, &ready)? {
        match devices.get(&name) {
            Ok(Some(now)) if now == access => {}
            // The driver makes a GPU's node when it is first used.
            Ok(None) if !name.contains('/') => {}
            Ok(_) => match devices.set(&name, access) {
                Ok(()) => report.device_nodes.push(name),
                Err(e) => report.problems.push(Chain(&e).to_string()),
            },
            Err(e) => report.problems.push(Chain(&e).to_string()),
        }
    }
    Ok(())
}
