//! After a crash: what no live job owns is free again.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use placement::{GpuIndex, JobId};

use crate::deadline::Deadline;
use crate::devices::Devices;
use crate::expected::{GpuFacts, device_nodes};
use crate::fault::Fault;
use crate::journal::{BadFile, Entry, Journal, Phase};
use crate::lock::Locks;
use crate::nvml::Nvml;
use crate::realise::{chain, require_root};
use crate::settings::Settings;
use crate::{instances, mps, release};

/// What a reconciliation did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReconcileReport {
    /// Dead jobs whose release was finished.
    pub finished: Vec<JobId>,
    /// Half-made GPU instances that were destroyed: GPU, GPU instance id.
    pub destroyed: Vec<(GpuIndex, u32)>,
    /// GPUs whose pending change of MIG mode was taken back.
    pub modes: Vec<GpuIndex>,
    /// Device nodes that were given back or set right, relative to `dev_root`.
    pub device_nodes: Vec<String>,
    /// MPS daemons that were ended.
    pub daemons: Vec<String>,
    /// Journal files that could not be understood.
    pub bad_files: Vec<BadFile>,
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

/// How long a half-made instance that is in use is waited for: it can be destroyed when its place is needed, too.
const DESTROY_TIMEOUT: Duration = Duration::from_secs(2);

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
    for entry in journal.jobs(&mut report.bad_files)? {
        if is_live(&entry, journal.boot(), live) {
            kept.push(entry);
        } else {
            report.problems.extend(release::finish(settings, &journal, &entry)?.problems);
            report.finished.push(entry.job());
        }
    }
    end_daemons(settings, &journal, &kept, &mut report)?;
    let held_unknown = unknown_holders(&journal, &report, live)?;
    match Nvml::load(&settings.nvml_library) {
        Err(e) => report.problems.push(chain(&e)),
        Ok(nvml) => {
            let gpus: Vec<GpuIndex> = (0..nvml.count().unwrap_or(0)).map(GpuIndex).collect();
            tidy(&nvml, &gpus, &kept, &mut report);
            if held_unknown {
                let why = "device nodes are left as they are: the journal of a live job is damaged";
                report.problems.push(why.to_owned());
            } else if let Err(e) = set_nodes(settings, &nvml, &kept, &mut report) {
                report.problems.push(chain(&e));
            }
        }
    }
    Ok(report)
}

/// Whether some other job than `own` is journalled, without a step among `live`, for longer than `after`: it may be one
/// that slurmctld has forgotten, whose epilog will never run. At most one caller is told so in that time.
#[must_use]
pub fn seems_forgotten(settings: &Settings, own: JobId, live: &HashSet<JobId>, after: Duration) -> bool {
    let Ok(journal) = Journal::open(&settings.state_dir) else { return false };
    let entries = journal.jobs(&mut Vec::new()).unwrap_or_default();
    let stale = |e: &Entry| {
        e.job() != own && !live.contains(&e.job()) && journal.age(e.job()).is_some_and(|age| age > after)
    };
    entries.iter().any(stale) && first_in(&settings.state_dir.join("asked"), after)
}

/// Whether nobody has been here within that time; notes that somebody is now.
fn first_in(stamp: &Path, time: Duration) -> bool {
    let last = std::fs::symlink_metadata(stamp).and_then(|meta| meta.modified());
    if last.is_ok_and(|at| at.elapsed().is_ok_and(|ago| ago < time)) {
        return false;
    }
    std::fs::write(stamp, "").is_ok()
}

/// True for a job whose entry still counts.
pub(crate) fn is_live(entry: &Entry, boot: &str, live: Option<&HashSet<JobId>>) -> bool {
    entry.boot == boot && live.is_none_or(|l| l.contains(&entry.job()))
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
        (Some(_), None) => !report.bad_files.is_empty(),
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
    for daemon in journal.daemons(&mut report.bad_files)? {
        if !wanted(&daemon.key) {
            match mps::stop(settings, journal, &daemon) {
                Ok(()) => report.daemons.push(daemon.key),
                Err(e) => report.problems.push(chain(&e)),
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
                Err(e) => report.problems.push(chain(&e)),
            }
        }
    }
    Ok(())
}

/// Removes what an interrupted prolog left half made on GPUs that the caller has locked. `kept` are the entries of
/// other jobs.
pub(crate) fn tidy(nvml: &Nvml, gpus: &[GpuIndex], kept: &[Entry], report: &mut ReconcileReport) {
    destroy_remnants(nvml, gpus, report);
    settle_modes(nvml, gpus, kept, report);
}

/// Nobody makes an instance on a locked GPU: one without a compute instance is a remnant.
fn destroy_remnants(nvml: &Nvml, gpus: &[GpuIndex], report: &mut ReconcileReport) {
    let deadline = Deadline::after(DESTROY_TIMEOUT);
    for gpu in gpus.iter().copied() {
        let all = match nvml.instances(gpu) {
            Ok(all) => all,
            Err(e) => {
                report.problems.push(chain(&e));
                continue;
            }
        };
        for instance in all.iter().filter(|i| i.compute.is_empty()) {
            match instances::destroy(nvml, gpu, instance, &deadline) {
                Ok(()) => report.destroyed.push((gpu, instance.id)),
                Err(e) => report.problems.push(chain(&e)),
            }
        }
    }
}

/// A prolog was killed between asking for a mode and the reset that brings it into force: the next job that needs
/// the mode asks again.
fn settle_modes(nvml: &Nvml, gpus: &[GpuIndex], kept: &[Entry], report: &mut ReconcileReport) {
    for gpu in gpus.iter().copied() {
        let Ok(mode) = nvml.mig_mode(gpu) else { continue };
        if mode.current == mode.pending || kept.iter().any(|e| e.holds() && e.uses(gpu)) {
            continue;
        }
        match nvml.set_mig_mode(gpu, mode.current) {
            Ok(Ok(())) => report.modes.push(gpu),
            Ok(Err(code)) => report.problems.push(format!("GPU {gpu}: its pending MIG mode stays: {code}")),
            Err(e) => report.problems.push(chain(&e)),
        }
    }
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
    for gpu in (0..nvml.count()?).map(GpuIndex) {
        match nvml.minor(gpu) {
            Ok(minor) => facts.push(GpuFacts { gpu, minor }),
            // Lost: its node stays as it is, the others' are set right.
            Err(e) => report.problems.push(chain(&e)),
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
                Err(e) => report.problems.push(chain(&e)),
            },
            Err(e) => report.problems.push(chain(&e)),
        }
    }
    Ok(())
}
