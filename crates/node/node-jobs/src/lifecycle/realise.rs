//! The prolog: makes real what a job was granted.
//!
//! A prolog may be killed at any point and run again. It uses what stands already, and finishes or replaces what is half
//! made.

use std::time::Duration;

use error_chain::Chain;
use geometry::JobId;

use super::conflict::conflict;
use super::give_back::{finish, revoke};
use super::job::{JobContext, require_root};
use super::make;
use crate::driver::Driver;
use crate::fault::{Fault, RealiseError};
use crate::hardware;
use crate::settings::Settings;
use crate::stale_processes::Leftover;
use node_driver::NvmlIndex;
use node_driver::deadline::Deadline;
use node_driver::nvml;
use node_journal::lock::{LockError, Locks};
use node_journal::{DamagedFile, Entry, Journal, Phase};

/// Longest wait for locks, in times that one job has for its own work.
const LOCK_TURNS: u32 = 3;

/// A job's resources exist and are the job's.
#[derive(Clone, Debug)]
pub struct Realised {
    /// The job's entry as the journal has it now.
    pub entry: Entry,
    /// Dead jobs that still held some of it, and from whom it was taken.
    pub evicted: Vec<JobId>,
    /// Processes that were still on it, ended or waited for.
    pub leftovers: Vec<Leftover>,
    /// Power limits that somebody else has changed since they were set, processes of running jobs that have a device node of
    /// this job's open, and why the kernel does not hold the job to its memory; for the log.
    pub notes: Vec<String>,
    /// Journal files that could not be understood: what their jobs hold is not known.
    pub damaged: Vec<DamagedFile>,
    /// Time spent in the driver's library.
    pub driver_time: Duration,
}

/// Makes real what a job was granted. Returns once the job may start.
///
/// # Errors
///
/// [`RealiseError::NodeUnfit`] where no job could be started here, [`RealiseError::JobFailed`] where only this one
/// cannot; the latter is journalled, so that the job's tasks can be refused with the reason, unless there is no journal.
pub fn realise(settings: &Settings, job: &JobContext) -> Result<Realised, RealiseError> {
    let mut driver = Driver::new(settings);
    let done = realise_locked(settings, job, &mut driver);
    driver.start_clients();
    match done {
        Ok(mut realised) => {
            realised.notes.extend(driver.take_notes());
            Ok(realised)
        }
        Err(fault) if fault.unwell_gpu().is_some() && !hardware::any_answers(settings) => {
            Err(RealiseError::NodeUnfit(fault))
        }
        Err(fault) => Err(fault.into()),
    }
}

/// Makes it under the locks of the job, its GPUs and its daemons. The job's own time begins when it has them: prologs that are at work
/// on the same GPU may need all of theirs.
fn realise_locked(settings: &Settings, job: &JobContext, driver: &mut Driver<'_>) -> Result<Realised, Fault> {
    require_root()?;
    let driver_time = nvml::driver_time();
    let journal = Journal::open(&settings.node.state_dir)?;
    let mut gpus: Vec<NvmlIndex> = job.grant.gpus().iter().map(|g| g.index).collect();
    let mut daemons = job.grant.daemon_keys();
    if let Some(old) = journal.job(job.job)? {
        gpus.extend(old.gpus.iter().map(|g| g.index));
        daemons.extend(old.daemons().into_iter().map(str::to_owned));
    }
    let turn = Deadline::after(settings.operation_timeout() * LOCK_TURNS);
    let _locks = Locks::for_job(&settings.node.state_dir, job.job, &gpus, &daemons, &turn)?;
    let deadline = &Deadline::after(settings.operation_timeout());
    let own_damaged = journal.set_aside_job(job.job)?;
    let mut entry = job.first_entry(journal.boot());
    let mut made_before = false;
    match journal.job(job.job)? {
        // What it has been given already is taken back should this attempt fail.
        Some(old) if same_job(&old, job, journal.boot()) => {
            made_before = old.phase == Phase::Ready;
            (entry.gpus, entry.device_nodes, entry.fence) = (old.gpus, old.device_nodes, old.fence);
        }
        // Requeued, and its epilog never ran here.
        Some(old) => drop(finish(settings, &journal, &old)?),
        None => {}
    }
    let result = attempt(settings, &journal, job, driver, &mut entry, made_before, deadline);
    if !made_before && job.abandoned() {
        finish(settings, &journal, &entry)?;
        return Err(Fault::Abandoned);
    }
    match result {
        Ok(Met { evicted, damaged, made }) => {
            let damaged = own_damaged.into_iter().chain(damaged).collect();
            let driver_time = nvml::driver_time() - driver_time;
            let make::Made { leftovers, notes } = made;
            Ok(Realised { entry, evicted, leftovers, notes, damaged, driver_time })
        }
        Err(fault) => {
            give_up(settings, &journal, entry, &fault)?;
            Err(fault)
        }
    }
}

fn same_job(old: &Entry, job: &JobContext, boot: &str) -> bool {
    old.boot == boot
        && old.holds()
        && (old.uid, old.gid, old.restart) == (job.uid, job.gid, job.restart)
        && job.grant.is_of(old)
}

/// Whom and what an attempt met: dead jobs that held something, damaged journal files, processes on the devices.
struct Met {
    evicted: Vec<JobId>,
    damaged: Vec<DamagedFile>,
    made: make::Made,
}

/// Plans, takes from dead jobs what is in the way, and makes what was planned. `again`: it was made before.
fn attempt(
    settings: &Settings,
    journal: &Journal,
    job: &JobContext,
    driver: &mut Driver<'_>,
    entry: &mut Entry,
    again: bool,
    deadline: &Deadline,
) -> Result<Met, Fault> {
    let mut evicted = Vec::new();
    make::plan(settings, driver, &job.grant, entry)?;
    let mut others = Vec::new();
    let (entries, damaged) = journal.jobs()?.into_parts();
    for other in entries {
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
    let before = make::Before { others: &others, again };
    let made = make::carry_out(settings, journal, driver, &job.grant, entry, before, deadline)?;
    entry.phase = Phase::Ready;
    journal.store(entry)?;
    Ok(Met { evicted, damaged, made })
}

/// Longest wait for a dead job's lock: its holder is the job's epilog, about to give everything back.
const EVICT_WAIT: Duration = Duration::from_secs(3);

/// Takes everything from a job that is dead. False: another process works on it, or it is another one by now.
fn evict(settings: &Settings, journal: &Journal, own: JobId, dead: &Entry) -> Result<bool, Fault> {
    let deadline = Deadline::after(EVICT_WAIT);
    let _lock = match Locks::for_other(&settings.node.state_dir, own, dead.job(), &deadline) {
        Err(LockError::Timeout { .. }) => return Ok(false),
        other => other?,
    };
    match journal.job(dead.job())? {
        None => Ok(true),
        Some(now) if now == *dead => {
            finish(settings, journal, &now)?;
            Ok(true)
        }
        Some(now) => Ok(!now.holds()),
    }
}

/// Takes back what a failed attempt gave and journals why it failed.
fn give_up(settings: &Settings, journal: &Journal, mut entry: Entry, fault: &Fault) -> Result<(), Fault> {
    let (_problems, _nodes) = revoke(settings, journal, &entry)?;
    entry.phase = Phase::Failed(Chain(fault).to_string());
    entry.device_nodes.clear();
    entry.fence = None;
    Ok(journal.store(&entry)?)
}
