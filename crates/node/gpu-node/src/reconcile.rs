//! Frees, after a crash, what no live job owns.

use std::collections::HashSet;

use error_chain::Chain;
use geometry::JobId;

use crate::broker_jobs;
use crate::device_nodes::{GpuFacts, device_nodes};
use crate::driver_params::complaint;
use crate::power_limits as power;
use node_driver::NvmlIndex;
use node_driver::deadline::Deadline;
use node_driver::nvml::Nvml;
use node_jobs::Fault;
use node_jobs::Settings;
use node_jobs::access::Devices;
use node_jobs::lifecycle::finish;
use node_jobs::lifecycle::require_root;
use node_jobs::{mps, stale_instances};
use node_journal::lock::Locks;
use node_journal::{DamagedFile, Entry, GpuRecord, Journal, Phase};

/// Outcome of a reconciliation.
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
    /// GPUs whose power limit is as it was found again.
    pub limits: Vec<NvmlIndex>,
    /// MPS daemons that were ended.
    pub daemons: Vec<String>,
    /// MPS daemons that had ended under their jobs and were started again.
    pub daemons_started: Vec<String>,
    /// The task broker did not run, and was started for the jobs that need it.
    pub broker_started: bool,
    /// Jobs that the task broker still had.
    pub broker_jobs: Vec<JobId>,
    /// Journal files that could not be understood, where they are kept now.
    pub damaged: Vec<DamagedFile>,
    /// Things that could not be set right; for the log.
    pub problems: Vec<String>,
}

impl ReconcileReport {
    /// True where there was nothing to do.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }
}

/// Knowledge of the jobs that live on this node.
#[derive(Clone, Copy, Debug)]
pub enum LiveJobs<'a> {
    /// Nothing: every job journalled since the node booted counts as live, and every job whose file is damaged.
    Unknown,
    /// These are, and others may have begun since Slurm was asked: every job journalled since the node booted counts as
    /// live, but of those whose files are damaged only these and the ones found damaged just now.
    AtLeast(&'a HashSet<JobId>),
    /// These and no others.
    Exactly(&'a HashSet<JobId>),
}

/// Finishes what was interrupted, and takes nothing from a job that may be live.
///
/// # Errors
///
/// Not root, the journal cannot be used, or another process works on the node until after the deadline. Everything
/// else is a problem in the report, and the rest is still done.
pub fn reconcile(settings: &Settings, live: LiveJobs<'_>) -> Result<ReconcileReport, Fault> {
    require_root()?;
    let deadline = Deadline::after(settings.operation_timeout());
    let _lock = Locks::for_node(&settings.node.state_dir, &deadline)?;
    let journal = Journal::open(&settings.node.state_dir)?;
    journal.sweep()?;
    let mut report = ReconcileReport::default();
    let (mut kept, mut unfinished) = (Vec::new(), Vec::new());
    let (entries, damaged) = journal.jobs()?.into_parts();
    report.damaged = journal.set_aside_jobs(damaged)?;
    let only = match live {
        LiveJobs::Exactly(jobs) => Some(jobs),
        LiveJobs::AtLeast(_) | LiveJobs::Unknown => None,
    };
    for entry in entries {
        if is_live(&entry, journal.boot(), only) {
            kept.push(entry);
        } else {
            match finish(settings, &journal, &entry) {
                Ok(released) => {
                    report.problems.extend(released.problems);
                    report.finished.push(entry.job());
                }
                // Its entry stays, and with it the place of what could not be taken back. The job gets nothing again.
                Err(e) => {
                    report.problems.push(Chain(&e).to_string());
                    unfinished.push(entry);
                }
            }
        }
    }
    let in_place = [&kept[..], &unfinished].concat();
    report.problems.extend(complaint(settings));
    let held_unknown = unknown_holders(&journal, &report.damaged, live)?;
    if held_unknown {
        let why = "device nodes and MPS daemons are left as they are: the journal of a live job is damaged";
        report.problems.push(why.to_owned());
    } else {
        end_daemons(settings, &journal, &in_place, &mut report)?;
        let broker = broker_jobs::reconcile(settings, &journal, &kept);
        (report.broker_started, report.broker_jobs) = (broker.started, broker.ended);
        report.problems.extend(broker.problems);
    }
    match Nvml::load(&settings.node.nvml_library) {
        Err(e) => report.problems.push(Chain(&e).to_string()),
        Ok(nvml) => {
            let all = (0..nvml.count().unwrap_or(0)).map(NvmlIndex);
            let gpus: Vec<NvmlIndex> = all.filter(|gpu| !settings.is_fixed(*gpu)).collect();
            let cleared = stale_instances::clear(&nvml, &gpus, &in_place);
            report.destroyed = cleared.destroyed;
            report.modes = cleared.modes;
            report.problems.extend(cleared.problems);
            if !held_unknown {
                let (settled, restored) = power::reconcile(&journal, &nvml, &kept)?;
                report.limits = restored;
                report.problems.extend(settled.problems.into_iter().chain(settled.notes));
            }
            if !held_unknown {
                let revived = mps::revive(settings, &journal, &nvml, &kept, &deadline)?;
                report.daemons_started = revived.started;
                report.problems.extend(revived.problems);
            }
            if !held_unknown && let Err(e) = set_nodes(settings, &nvml, &kept, &mut report) {
                report.problems.push(Chain(&e).to_string());
            }
        }
    }
    Ok(report)
}

/// True for a job whose entry still counts. `boot` is this boot, `live` the jobs on the node, where known: without
/// them every job journalled since the boot counts.
pub(crate) fn is_live(entry: &Entry, boot: &str, live: Option<&HashSet<JobId>>) -> bool {
    entry.boot == boot && live.is_none_or(|live| live.contains(&entry.job()))
}

/// True where a job of which the journal knows nothing any more may be live: what it holds must not be taken from it.
/// `damaged` are its files that were found just now.
fn unknown_holders(journal: &Journal, damaged: &[DamagedFile], live: LiveJobs<'_>) -> Result<bool, Fault> {
    let mut unknown = false;
    for (job, name) in journal.lost_files()? {
        let found_now = || damaged.iter().any(|file| file.path.ends_with(&name));
        let may_live = match live {
            LiveJobs::Unknown => true,
            LiveJobs::AtLeast(jobs) => jobs.contains(&job) || found_now(),
            LiveJobs::Exactly(jobs) => jobs.contains(&job),
        };
        if may_live && journal.job(job)?.is_none() {
            unknown = true;
        } else {
            journal.job_is_over(&name)?;
        }
    }
    Ok(unknown)
}

fn end_daemons(
    settings: &Settings,
    journal: &Journal,
    kept: &[Entry],
    report: &mut ReconcileReport,
) -> Result<(), Fault> {
    let wanted = |key: &str| kept.iter().any(|e| e.holds() && e.daemons().contains(&key));
    let (daemons, damaged) = journal.daemons()?.into_parts();
    report.damaged.extend(journal.set_aside_daemons(damaged)?);
    for daemon in daemons {
        if wanted(&daemon.key) {
            if let Err(e) = mps::admit_users(settings, journal, &daemon, None) {
                report.problems.push(Chain(&e).to_string());
            }
        } else {
            match mps::stop(settings, journal, &daemon, None) {
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
    if !settings.node.manage_device_nodes {
        return Ok(());
    }
    let mut facts = Vec::new();
    for gpu in (0..nvml.count()?).map(NvmlIndex) {
        match power::record(nvml, gpu) {
            Ok(GpuRecord { minor, uuid, .. }) => facts.push(GpuFacts { gpu, uuid, minor }),
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
