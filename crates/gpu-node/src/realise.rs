//! Makes real what a job was granted: the prolog.
//!
//! Everything here may be killed at any point and run again: what stands already is used, what is half made is
//! finished or replaced.

use std::collections::HashSet;
use std::time::Duration;

use placement::decision::ShareOn;
use placement::matched::Matched;
use placement::{GpuIndex, Grant, JobId, MigPolicy, MigSpec, Placement};
use site_config::MemoryLimit;

use crate::conflict::conflict;
use crate::deadline::Deadline;
use crate::devices::{Access, Devices, gpu_node};
use crate::driver::Driver;
use crate::fault::{Fault, RealiseError};
use crate::gpu_access;
use crate::journal::{
    Entry, GpuRecord, InstanceRecord, Journal, Kind, Phase, ShareRecord, VERSION, daemon_key,
};
use crate::lock::{LockError, Locks};
use crate::settings::Settings;
use crate::starter::Starter;
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
    /// For whole GPUs: how the set was chosen and what it promises, as the controller says.
    pub matched: Option<Matched>,
    /// Jobs known to be on this node now. What another journalled job holds is taken from it if it is in the way and
    /// not among these: its epilog was killed. `None`: not known; nothing is taken from anybody.
    pub live: Option<HashSet<JobId>>,
    /// Who waits for the outcome; if that is gone at the end, everything is given back. `None`: nobody looks.
    pub starter: Option<Starter>,
}

impl JobContext {
    /// True where nobody will begin the job, nor end it.
    pub(crate) fn abandoned(&self) -> bool {
        self.starter.is_some_and(Starter::is_gone)
    }
}

/// A job's resources exist and are the job's.
#[derive(Clone, Debug)]
pub struct Realised {
    /// As journalled.
    pub entry: Entry,
    /// Dead jobs that held some of it until now.
    pub evicted: Vec<JobId>,
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
    let mut entry = blank(job, journal.boot());
    let mut made_before = false;
    match journal.job(job.job)? {
        // What it has been given already is taken back should this attempt fail.
        Some(old) if same_job(&old, job, journal.boot()) => {
            made_before = old.phase == Phase::Ready;
            (entry.gpus, entry.device_nodes) = (old.gpus, old.device_nodes);
        }
        // Requeued, and its epilog never ran here.
        Some(old) => drop(release::finish(settings, &journal, &old)?),
        None => {}
    }
    let result = plan(settings, &journal, job, &mut entry, deadline);
    if !made_before && job.abandoned() {
        release::finish(settings, &journal, &entry)?;
        return Err(Fault::Abandoned);
    }
    match result {
        Ok(evicted) => Ok(Realised { entry, evicted, driver_time: nvml::driver_time() - driver_time }),
        Err(fault) => {
            give_up(settings, &journal, entry, &fault)?;
            Err(fault)
        }
    }
}

/// Notes that a job's batch script begins, see [`Entry::begun`]. A job that the journal does not know is no error.
///
/// # Errors
///
/// Not root, another process works on the job for too long, or the journal cannot be used.
pub fn begin_batch(settings: &Settings, job: JobId) -> Result<(), Fault> {
    require_root()?;
    let deadline = Deadline::after(settings.operation_timeout);
    let _locks = Locks::for_job(&settings.state_dir, job, &[], None, &deadline)?;
    let journal = Journal::open(&settings.state_dir)?;
    match journal.job(job)? {
        Some(entry) => Ok(journal.note(&Entry { begun: true, ..entry })?),
        None => Ok(()),
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

pub(crate) fn blank(job: &JobContext, boot: &str) -> Entry {
    Entry {
        version: VERSION,
        boot: boot.to_owned(),
        job: job.job.0,
        uid: job.uid,
        gid: job.gid,
        restart: job.restart,
        decision: job.decision.clone(),
        matched: job.matched.as_ref().map(ToString::to_string),
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
        begun: false,
    }
}

fn plan(
    settings: &Settings,
    journal: &Journal,
    job: &JobContext,
    entry: &mut Entry,
    deadline: &Deadline,
) -> Result<Vec<JobId>, Fault> {
    let mut driver = Driver::new(settings);
    let mut evicted = Vec::new();
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
        if !(dead && evict(settings, journal, job.job, &other)?) {
            return Err(Fault::Held { gpu: held.gpu, what: held.what, holder: other.job() });
        }
        evicted.push(other.job());
    }
    journal.store(entry)?;
    carry_out(settings, journal, &mut driver, entry, &others, deadline)?;
    entry.phase = Phase::Ready;
    journal.store(entry)?;
    Ok(evicted)
}

/// How long a dead job's lock is waited for: whoever holds it is its epilog, about to give everything back.
const EVICT_WAIT: Duration = Duration::from_secs(3);

/// Takes everything from a job that is dead. False: another process works on it, or it is another one by now.
fn evict(settings: &Settings, journal: &Journal, own: JobId, dead: &Entry) -> Result<bool, Fault> {
    let deadline = Deadline::after(EVICT_WAIT);
    let _lock = match Locks::for_other(&settings.state_dir, own, dead.job(), &deadline) {
        Err(LockError::Timeout { .. }) => return Ok(false),
        other => other?,
    };
    match journal.job(dead.job())? {
        None => Ok(true),
        Some(now) if now == *dead => {
            release::finish(settings, journal, &now)?;
            Ok(true)
        }
        Some(now) => Ok(!now.holds()),
    }
}

/// Fills in what is planned, from the driver's answers, before anything is changed.
fn fill(settings: &Settings, driver: &mut Driver<'_>, grant: &Grant, entry: &mut Entry) -> Result<(), Fault> {
    // In the granted order, which is the order the job sees.
    let in_order: Vec<GpuIndex> = match grant {
        Grant::Whole(gpus) => gpus.clone(),
        Grant::Mig(_) | Grant::Mps { .. } => grant.gpus(),
    };
    let count = driver.nvml()?.count()?;
    let mut gpus = Vec::new();
    for gpu in in_order {
        if gpu.0 >= count {
            return Err(Fault::NoSuchGpu { gpu, count });
        }
        let nvml = driver.nvml()?;
        let (minor, uuid) = (nvml.minor(gpu)?, nvml.uuid(gpu)?);
        if let Some(meant) = settings.numbers.minor_of(gpu).filter(|meant| *meant != minor) {
            return Err(Fault::Miscounted { gpu, minor, meant });
        }
        gpus.push(GpuRecord { index: gpu.0, minor, uuid, number: settings.numbers.number_of(gpu) });
    }
    entry.gpus = gpus;
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
    give(settings, journal, &devices, entry)?;
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

/// Makes the device nodes the job's.
fn give(settings: &Settings, journal: &Journal, devices: &Devices, entry: &mut Entry) -> Result<(), Fault> {
    let caps = caps(settings, devices, entry)?;
    entry.device_nodes = caps.iter().map(|c| c.0.clone()).collect();
    if entry.instances.is_empty() {
        entry.device_nodes.extend(entry.gpus.iter().map(|g| gpu_node(g.minor)));
    }
    {
        let _nodes = Locks::for_nodes(&settings.state_dir, &gpu_access::lock_deadline())?;
        journal.note(entry)?;
        let failed = gpu_access::settle(settings, journal, devices, entry, true)?;
        if let Some(e) = failed.into_iter().next() {
            return Err(e.into());
        }
    }
    for (name, access) in &caps {
        devices.set(name, *access)?;
    }
    Ok(())
}

/// The capability nodes that make a ready job's instances the job's, and how they must be.
pub(crate) fn caps(
    settings: &Settings,
    devices: &Devices,
    entry: &Entry,
) -> Result<Vec<(String, Access)>, Fault> {
    let to_all = gpu_access::shared_by_all(settings, entry);
    let mut grants = Vec::new();
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
    let (_problems, _nodes) = release::revoke(settings, journal, &entry)?;
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
