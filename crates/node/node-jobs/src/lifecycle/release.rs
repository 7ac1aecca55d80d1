//! The epilog: takes back what a job had.
//!
//! Instances stay, idle, for the next job of their shape, so the driver is not asked. The exception is a job whose prolog
//! was killed: what that left half made is removed. An epilog that fails drains the node, so what cannot be taken back at
//! once is reported instead, and reconciliation tries again.

use error_chain::Chain;
use geometry::JobId;

use super::give_back::{Released, finish};
use super::job::require_root;
use crate::access::Devices;
use crate::fault::Fault;
use crate::settings::Settings;
use crate::stale_instances;
use job_usage::present;
use node_driver::NvmlIndex;
use node_driver::deadline::Deadline;
use node_driver::nvml::Nvml;
use node_journal::lock::{LockError, Locks};
use node_journal::{Entry, GpuRecord, Journal, Phase};

/// Takes back what a job had. A job that the journal does not know is no error.
///
/// # Errors
///
/// Not root, or the journal cannot be read or written.
pub fn release(settings: &Settings, job: JobId) -> Result<Released, Fault> {
    release_if(settings, job, &|_| true)
}

/// As [`release`], if `wanted` says so of the entry that the job has once its locks are had.
///
/// # Errors
///
/// The same as of [`release`].
pub fn release_if(
    settings: &Settings,
    job: JobId,
    wanted: &dyn Fn(&Entry) -> bool,
) -> Result<Released, Fault> {
    require_root()?;
    let journal = Journal::open(&settings.node.state_dir)?;
    let deadline = Deadline::after(settings.operation_timeout());
    let mut entry = journal.job(job)?;
    if entry.is_none() {
        // The prolog of a slurmd that was killed may be about to write it.
        match Locks::for_job(&settings.node.state_dir, job, &[], &[], &deadline) {
            Err(LockError::State(e)) => return Err(e.into()),
            Err(e @ LockError::Timeout { .. }) => {
                return Ok(Released { problems: vec![Chain(&e).to_string()], ..Released::default() });
            }
            Ok(_its) => entry = journal.job(job)?,
        }
    }
    let Some(entry) = entry.filter(|e| wanted(e)) else { return Ok(Released::default()) };
    let interrupted = entry.phase == Phase::Intent;
    // Asked before locks are taken: a process that waits for one must not keep GPUs open.
    let (here, missing) = if interrupted { gpus_now(settings, &entry) } else { (Vec::new(), Vec::new()) };
    let gpus: Vec<NvmlIndex> = here.iter().map(|g| g.index).collect();
    // A GPU's lock is only needed to remove what a killed prolog left. The rest is the job's alone and can be given back
    // while another job's prolog keeps the GPU: instances count as held until the entry is gone, and it goes last.
    let daemons: Vec<String> = entry.daemons().into_iter().map(str::to_owned).collect();
    let _locks = match Locks::for_job(&settings.node.state_dir, job, &gpus, &daemons, &deadline) {
        Err(LockError::State(e)) => return Err(e.into()),
        Err(e @ LockError::Timeout { .. }) => {
            // Not a reason to drain the node: nothing is held for the job any more, and reconciliation does the rest.
            let why = Chain(&e).to_string();
            journal.store(&Entry {
                phase: Phase::Failed(format!("its release was cut short: {why}")),
                ..entry
            })?;
            return Ok(Released { known: true, problems: vec![why], ..Released::default() });
        }
        Ok(locks) => locks,
    };
    match journal.job(job)? {
        Some(entry) if !wanted(&entry) => Ok(Released::default()),
        Some(entry) if interrupted => {
            let mut problems = clear_stale_instances(settings, &journal, &entry, &here);
            problems.extend(missing);
            let released = finish(settings, &journal, &entry)?;
            problems.extend(released.problems);
            Ok(Released { problems, ..released })
        }
        Some(entry) => finish(settings, &journal, &entry),
        None => Ok(Released { known: true, ..Released::default() }),
    }
}

/// The entry's GPUs as the driver shows them now, and what is said of those that it does not show.
fn gpus_now(settings: &Settings, entry: &Entry) -> (Vec<GpuRecord>, Vec<String>) {
    match Nvml::load(&settings.node.nvml_library) {
        Ok(nvml) => {
            let (here, missing) = present::find_all(&nvml, &entry.gpus);
            let said = missing.iter().map(|e| format!("what its prolog left half made stays: {}", Chain(e)));
            (here, said.collect())
        }
        Err(e) => (Vec::new(), vec![Chain(&e).to_string()]),
    }
}

/// The prolog was killed: what it left half made on `gpus` goes. Returns what could not be done.
fn clear_stale_instances(
    settings: &Settings,
    journal: &Journal,
    entry: &Entry,
    gpus: &[GpuRecord],
) -> Vec<String> {
    let work = || -> Result<Vec<String>, Fault> {
        let (mut others, damaged) = journal.jobs()?.into_parts();
        if let Some(file) = damaged.first() {
            // What is idle by all other entries may be what that one holds.
            return Ok(vec![format!("what its prolog left half made stays: {file}")]);
        }
        others.retain(|e| e.job != entry.job && e.holds());
        let nvml = Nvml::load(&settings.node.nvml_library)?;
        let devices = Devices::open(settings)?;
        for gpu in gpus.iter().filter(|g| !settings.must_not_touch(g.index)) {
            stale_instances::close_idle(&nvml, &devices, gpu, &others)?;
        }
        // On a GPU that nobody describes any more, a half-made instance may be the site's own.
        let (known, unknown): (Vec<NvmlIndex>, Vec<NvmlIndex>) =
            gpus.iter().map(|g| g.index).partition(|gpu| settings.described(*gpu).is_some());
        let gpus: Vec<NvmlIndex> = known.into_iter().filter(|gpu| !settings.is_fixed(*gpu)).collect();
        let mut problems = stale_instances::clear(&nvml, &gpus, &others).problems;
        problems.extend(unknown.iter().map(|gpu| {
            format!(
                "GPU {gpu}: tessera.toml describes it no more, so what the prolog of job {} left half made there stays; \
                 `tessera node reconcile` removes it once the file does",
                entry.job()
            )
        }));
        Ok(problems)
    };
    work().unwrap_or_else(|e| vec![Chain(&e).to_string()])
}
