//! Makes real what a job was granted: the prolog.
//!
//! Everything here may be killed at any point and run again: what stands already is used, what is half made is
//! finished or replaced.

use std::collections::HashSet;
use std::time::Duration;

use placement::decision::ShareOn;
use placement::{GpuIndex, Grant, JobId, MigPolicy, MigSpec, Placement};
use site_config::MemoryLimit;

use crate::conflict::conflict;
use crate::deadline::Deadline;
use crate::devices::{Access, Devices, gpu_node};
use crate::driver::Driver;
use crate::fault::{Fault, RealiseError};
use crate::journal::{
    Entry, GpuRecord, InstanceRecord, Journal, Kind, Phase, ShareRecord, VERSION, daemon_key,
};
use crate::lock::Locks;
use crate::settings::Settings;
use crate::{instances, mps, nvml, release};

/// What the prolog knows of a job.
#[derive(Clone, Debug)]
pub struct JobContext {
    /// Job id.
    pub job: JobId,
    /// The job's user.
    pub uid: u32,
    /// The user's group.
    pub gid: u32,
    /// How often the job was requeued.
    pub restart: u32,
    /// What it was granted on this node.
    pub grant: Grant,
    /// Why, in one line, for the job's log.
    pub decision: String,
    /// Jobs known to be on this node now, this one among them. `None`: not known; what a journalled job holds is then
    /// never taken from it.
    pub live: Option<HashSet<JobId>>,
}

/// A job's resources exist and are the job's.
#[derive(Clone, Debug)]
pub struct Realised {
    /// As journalled.
    pub entry: Entry,
    /// How much of the time was the driver's.
    pub driver_time: Duration,
}

/// Makes real what a job was granted. Returns once the job may start.
///
/// # Errors
///
/// [`RealiseError::NodeUnfit`] where no job could be started here, [`RealiseError::JobFailed`] where only this one
/// cannot; the latter is journalled, so that the job's tasks can be refused with the reason.
pub fn realise(settings: &Settings, job: &JobContext) -> Result<Realised, RealiseError> {
    let deadline = Deadline::after(settings.operation_timeout);
    realise_until(settings, job, &deadline).map_err(RealiseError::from)
}

fn realise_until(settings: &Settings, job: &JobContext, deadline: &Deadline) -> Result<Realised, Fault> {
    require_root()?;
    let driver_time = nvml::driver_time();
    let journal = Journal::open(&settings.state_dir)?;
    let mut gpus = job.grant.gpus();
    if let Some(old) = journal.job(job.job)? {
        gpus.extend(old.gpus.iter().map(|g| GpuIndex(g.index)));
    }
    let daemon = match &job.grant {
        Grant::Mps { on, .. } => Some(daemon_key(*on)),
        Grant::Mig(_) | Grant::Whole(_) => None,
    };
    let _locks = Locks::for_job(&settings.state_dir, job.job, &gpus, daemon.as_deref(), deadline)?;
    if let Some(old) = journal.job(job.job)?
        && !same_job(&old, job, journal.boot())
    {
        // Requeued, and its epilog never ran here.
        release::finish(settings, &journal, &old)?;
    }
    let mut entry = blank(job, journal.boot());
    let result = plan(settings, &journal, job, &mut entry, deadline);
    match result {
        Ok(()) => Ok(Realised { entry, driver_time: nvml::driver_time() - driver_time }),
        Err(fault) => {
            give_up(settings, &journal, entry, &fault)?;
            Err(fault)
        }
    }
}

/// Only root may change anything on the node.
pub(crate) fn require_root() -> Result<(), Fault> {
    let uid = rustix::process::geteuid();
    if uid.is_root() { Ok(()) } else { Err(Fault::NotRoot(uid.as_raw())) }
}

fn same_job(old: &Entry, job: &JobContext, boot: &str) -> bool {
    old.boot == boot
        && old.holds()
        && (old.uid, old.gid, old.restart) == (job.uid, job.gid, job.restart)
        && old.grant() == job.grant
}

fn blank(job: &JobContext, boot: &str) -> Entry {
    Entry {
        version: VERSION,
        boot: boot.to_owned(),
        job: job.job.0,
        uid: job.uid,
        gid: job.gid,
        restart: job.restart,
        decision: job.decision.clone(),
        phase: Phase::Intent,
        kind: match job.grant {
            Grant::Mig(_) => Kind::Mig,
            Grant::Mps { .. } => Kind::Mps,
            Grant::Whole(_) => Kind::Whole,
        },
        gpus: Vec::new(),
        instances: Vec::new(),
        share: None,
        device_nodes: Vec::new(),
    }
}

fn plan(
    settings: &Settings,
    journal: &Journal,
    job: &JobContext,
    entry: &mut Entry,
    deadline: &Deadline,
) -> Result<(), Fault> {
    let mut driver = Driver::new(settings);
    fill(settings, &mut driver, &job.grant, entry)?;
    let mut others = Vec::new();
    for other in journal.jobs(&mut Vec::new())? {
        if other.job == entry.job || !other.holds() {
            continue;
        }
        let Some(held) = conflict(entry, &other, settings.share_between_users) else {
            others.push(other);
            continue;
        };
        let dead =
            other.boot != journal.boot() || job.live.as_ref().is_some_and(|l| !l.contains(&other.job()));
        if !dead {
            return Err(Fault::Held { gpu: held.gpu, what: held.what, holder: other.job() });
        }
        release::finish(settings, journal, &other)?;
    }
    journal.store(entry)?;
    carry_out(settings, journal, &mut driver, entry, &others, deadline)?;
    entry.phase = Phase::Ready;
    Ok(journal.store(entry)?)
}

/// Fills in what is planned, from the driver's answers, before anything is changed.
fn fill(settings: &Settings, driver: &mut Driver<'_>, grant: &Grant, entry: &mut Entry) -> Result<(), Fault> {
    // In the granted order, which is the order the job sees.
    let in_order: Vec<GpuIndex> = match grant {
        Grant::Whole(gpus) => gpus.clone(),
        Grant::Mig(_) | Grant::Mps { .. } => grant.gpus(),
    };
    let count = driver.nvml()?.count()?;
    for gpu in in_order {
        if gpu.0 >= count {
            return Err(Fault::NoSuchGpu { gpu, count });
        }
        let nvml = driver.nvml()?;
        entry.gpus.push(GpuRecord { index: gpu.0, minor: nvml.minor(gpu)?, uuid: nvml.uuid(gpu)? });
    }
    let specs: Vec<MigSpec> = match grant {
        Grant::Mig(specs) => specs.clone(),
        Grant::Mps { on: ShareOn::Instance(spec), .. } => vec![*spec],
        Grant::Mps { .. } | Grant::Whole(_) => Vec::new(),
    };
    for spec in specs {
        entry.instances.push(instances::plan(driver, spec)?);
    }
    if let Grant::Mps { on, mem_mib, threads } = grant {
        let key = daemon_key(*on);
        let paths = mps::Paths::of(settings, &key);
        entry.share = Some(ShareRecord {
            daemon: key,
            mem_mib: *mem_mib,
            threads: *threads,
            memory_enforced: settings.memory_limit == MemoryLimit::Mps,
            pipe_dir: paths.pipe,
            log_dir: paths.log,
        });
    }
    Ok(())
}

fn carry_out(
    settings: &Settings,
    journal: &Journal,
    driver: &mut Driver<'_>,
    entry: &mut Entry,
    others: &[Entry],
    deadline: &Deadline,
) -> Result<(), Fault> {
    let partitioned = !entry.instances.is_empty();
    let devices = Devices::open(settings)?;
    for record in entry.gpus.clone() {
        let gpu = GpuIndex(record.index);
        set_mode(settings, driver, gpu, partitioned, deadline)?;
        let kept: Vec<Placement> = others.iter().flat_map(|o| places(o, gpu)).collect();
        let mut wanted: Vec<&mut InstanceRecord> =
            entry.instances.iter_mut().filter(|i| i.gpu == gpu.0).collect();
        if partitioned {
            instances::make(driver, &devices, gpu, &mut wanted, &kept, deadline)?;
        }
    }
    let grants = access(settings, &devices, entry)?;
    entry.device_nodes = grants.iter().map(|g| g.0.clone()).collect();
    journal.note(entry)?;
    if partitioned {
        for gpu in &entry.gpus {
            devices.set(&gpu_node(gpu.minor), Access::OPEN)?;
        }
    }
    for (name, access) in &grants {
        devices.set(name, *access)?;
    }
    if let Some(share) = &entry.share {
        let live = entry.instances.first().and_then(|i| i.live.as_ref()).map(|l| &l.uuid);
        let device = live.or(entry.gpus.first().map(|g| &g.uuid)).cloned().unwrap_or_default();
        mps::ensure(settings, journal, &share.daemon, (entry.uid, entry.gid), &device, deadline)?;
    }
    Ok(())
}

fn places(entry: &Entry, gpu: GpuIndex) -> Vec<Placement> {
    entry.instances.iter().filter(|i| i.gpu == gpu.0).map(InstanceRecord::placement).collect()
}

/// The device nodes that make a ready job's resources the job's, and how they must be.
pub(crate) fn access(
    settings: &Settings,
    devices: &Devices,
    entry: &Entry,
) -> Result<Vec<(String, Access)>, Fault> {
    let to_all = entry.kind == Kind::Mps && settings.share_between_users;
    let mut grants = Vec::new();
    if entry.instances.is_empty() {
        let access = if to_all { Access::OPEN } else { Access::gpu_of(entry.uid) };
        grants.extend(entry.gpus.iter().map(|g| (gpu_node(g.minor), access)));
    }
    let access = if to_all { Access::CAP_OPEN } else { Access::cap_of(entry.uid) };
    for instance in &entry.instances {
        let minor = entry.gpus.iter().find(|g| g.index == instance.gpu).map(|g| g.minor);
        if let (Some(minor), Some(live)) = (minor, &instance.live) {
            grants.extend(devices.caps(minor, live.gi, live.ci)?.map(|name| (name, access)));
        }
    }
    Ok(grants)
}

/// Brings the GPU into the mode that the grant needs. Nobody else holds any of it when the mode differs.
fn set_mode(
    settings: &Settings,
    driver: &mut Driver<'_>,
    gpu: GpuIndex,
    on: bool,
    deadline: &Deadline,
) -> Result<(), Fault> {
    let mode = driver.nvml()?.mig_mode(gpu)?;
    if mode.current == on && mode.pending == on {
        return Ok(());
    }
    let allowed = match settings.gpu(gpu).map_or(MigPolicy::Dynamic, |g| g.policy) {
        MigPolicy::Dynamic => true,
        MigPolicy::On => on,
        MigPolicy::Off => !on,
    };
    if !allowed {
        return Err(Fault::Policy { gpu, on });
    }
    if mode.current && !on {
        instances::destroy_all(driver.nvml()?, gpu, deadline)?;
    }
    driver.set_mode(gpu, on, deadline)
}

/// Takes back what a failed attempt gave and journals why it failed.
fn give_up(settings: &Settings, journal: &Journal, mut entry: Entry, fault: &Fault) -> Result<(), Fault> {
    release::revoke(settings, journal, &entry)?;
    entry.phase = Phase::Failed(chain(fault));
    entry.device_nodes.clear();
    Ok(journal.store(&entry)?)
}

/// An error and its sources on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text.replace('\n', " ")
}
