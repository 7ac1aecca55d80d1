//! Takes back what a job had: the epilog.
//!
//! Asks the driver nothing, but after a prolog that was killed: instances stay, idle, for the next job of their shape.
//! What cannot be taken back at once never fails the epilog, which would drain the node; it is reported, and
//! reconciliation tries again.

use placement::{GpuIndex, JobId};

use crate::deadline::Deadline;
use crate::devices::{Access, DeviceError, Devices};
use crate::fault::Fault;
use crate::gpu_access;
use crate::journal::{Entry, GpuRecord, InstanceRecord, Journal, Phase, ShareRecord};
use crate::lock::{LockError, Locks};
use crate::mps;
use crate::nvml::Nvml;
use crate::realise::{chain, require_root};
use crate::reconcile::{self, ReconcileReport};
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
    release_if(settings, job, &|_| true)
}

/// The same for a job that was found dead with this entry; nothing is done if it has another one by now. Whoever asked
/// Slurm may have waited long since: the job may have been started again.
///
/// # Errors
///
/// As [`release`].
pub fn release_dead(settings: &Settings, dead: &Entry) -> Result<Released, Fault> {
    release_if(settings, dead.job(), &|now| now == dead)
}

fn release_if(settings: &Settings, job: JobId, wanted: &dyn Fn(&Entry) -> bool) -> Result<Released, Fault> {
    require_root()?;
    let journal = Journal::open(&settings.state_dir)?;
    let deadline = Deadline::after(settings.operation_timeout);
    let mut entry = journal.job(job)?;
    if entry.is_none() {
        // The prolog of a slurmd that was killed may be about to write it.
        match Locks::for_job(&settings.state_dir, job, &[], None, &deadline) {
            Err(LockError::Dir(e)) => return Err(e.into()),
            Err(e @ LockError::Timeout { .. }) => {
                return Ok(Released { known: false, problems: vec![chain(&e)] });
            }
            Ok(_its) => entry = journal.job(job)?,
        }
    }
    let Some(entry) = entry.filter(|e| wanted(e)) else { return Ok(Released::default()) };
    let interrupted = entry.phase == Phase::Intent;
    let gpus: Vec<GpuIndex> = entry.gpus.iter().map(|g| GpuIndex(g.index)).collect();
    // No GPU's lock, but after a prolog that was killed: what is the job's alone can be given back while another job's
    // prolog keeps the GPU, for instances count as held until the entry is gone, and the entry goes last.
    let daemon = entry.share.as_ref().map(|s| s.daemon.as_str());
    let _locks = match Locks::for_job(
        &settings.state_dir,
        job,
        if interrupted { &gpus } else { &[] },
        daemon,
        &deadline,
    ) {
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
        Some(entry) if !wanted(&entry) => Ok(Released::default()),
        Some(entry) if interrupted => {
            let mut problems = tidy(settings, &journal, &entry, &gpus);
            let released = finish(settings, &journal, &entry)?;
            problems.extend(released.problems);
            Ok(Released { problems, ..released })
        }
        Some(entry) => finish(settings, &journal, &entry),
        None => Ok(Released { known: true, problems: Vec::new() }),
    }
}

/// The prolog was killed: what it left half made goes. Returns what could not be done.
fn tidy(settings: &Settings, journal: &Journal, entry: &Entry, gpus: &[GpuIndex]) -> Vec<String> {
    let mut report = ReconcileReport::default();
    let work = |report: &mut ReconcileReport| -> Result<(), Fault> {
        let mut others = journal.jobs(&mut Vec::new())?;
        others.retain(|e| e.job != entry.job && e.holds());
        let nvml = Nvml::load(&settings.nvml_library)?;
        let devices = Devices::open(settings)?;
        for gpu in &entry.gpus {
            close_idle(&nvml, &devices, gpu, &others)?;
        }
        reconcile::tidy(&nvml, gpus, &others, report);
        Ok(())
    };
    if let Err(e) = work(&mut report) {
        report.problems.push(chain(&e));
    }
    report.problems
}

/// Closes the capability nodes of instances that no other job holds: the driver's default lets everybody in.
fn close_idle(nvml: &Nvml, devices: &Devices, gpu: &GpuRecord, others: &[Entry]) -> Result<(), Fault> {
    for instance in nvml.instances(GpuIndex(gpu.index))? {
        let place = |r: &InstanceRecord| r.gpu == gpu.index && r.placement() == instance.placement;
        if others.iter().any(|o| o.instances.iter().any(place)) {
            continue;
        }
        let ci = instance.compute.first().map_or(0, |c| c.id);
        for name in devices.caps(gpu.minor, instance.id, ci)? {
            if devices.get(&name)?.is_some() {
                devices.set(&name, Access::CAP_CLOSED)?;
            }
        }
    }
    Ok(())
}

/// Takes back everything and forgets the job. The caller holds the locks.
pub(crate) fn finish(settings: &Settings, journal: &Journal, entry: &Entry) -> Result<Released, Fault> {
    let (problems, _nodes) = revoke(settings, journal, entry)?;
    journal.remove(entry.job())?;
    Ok(Released { known: true, problems })
}

/// Takes back device nodes and the share, but keeps the entry. The nodes' lock comes with the answer, where it could be
/// had: until the entry is changed nobody else may count who is on the GPUs.
pub(crate) fn revoke(
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
    let nodes = Locks::for_nodes(&settings.state_dir, &gpu_access::lock_deadline());
    let nodes = nodes.map_err(|e| problems.push(chain(&e))).ok();
    let failed = gpu_access::settle(settings, journal, &devices, entry, false)?;
    problems.extend(failed.iter().filter(|e| !missing(e)).map(|e| chain(e)));
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
        && shared_with_others(journal, entry, share)?
    {
        // The others use the same daemon and, as the same user, the same device nodes.
        return Ok(());
    }
    if let Some(share) = &entry.share
        && let Some(daemon) = journal.daemon(&share.daemon)?
        && let Err(e) = mps::stop(settings, journal, &daemon)
    {
        problems.push(chain(&e));
    }
    let mut caps = entry.device_nodes.iter().filter(|name| name.contains('/')).peekable();
    if caps.peek().is_none() {
        return Ok(());
    }
    let devices = Devices::open(settings)?;
    for name in caps {
        match devices.set(name, Access::CAP_CLOSED) {
            Err(e) if !missing(&e) => problems.push(chain(&e)),
            _ => {}
        }
    }
    Ok(())
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
