//! What a job's devices hold and do at one moment, as the driver tells. Changes no device and no entry, and takes no lock.

use geometry::JobId;

use crate::fault::Fault;
use crate::journal::{Entry, Journal};
use crate::living;
use crate::nvml::{Nvml, NvmlError, Usage};
use crate::settings::Settings;

/// What a job's devices on this node hold and do now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Memory of the job's processes on each of its devices, bytes. A device is an instance, a whole GPU, or what the job has
    /// a share of.
    pub memory: Vec<u64>,
    /// How busy its whole GPUs are, percent, the mean over them. `None` for instances and shares: of these the driver tells
    /// no utilisation.
    pub busy_percent: Option<u32>,
}

/// True where the job has a device here. Reads the journal alone.
///
/// # Errors
///
/// The journal cannot be read.
pub fn has_devices(settings: &Settings, job: JobId) -> Result<bool, Fault> {
    Ok(entry_of(settings, job)?.is_some_and(|entry| !devices(&entry).is_empty()))
}

/// Looks at the devices of a job; `None` for a job that has none here.
///
/// # Errors
///
/// The journal cannot be read, or the driver does not answer for one of the devices.
pub fn sample(settings: &Settings, nvml: &Nvml, job: JobId) -> Result<Option<Sample>, Fault> {
    let Some(entry) = entry_of(settings, job)? else { return Ok(None) };
    let memory = |uuid: &str| Ok(memory_of(&nvml.usage(uuid)?, &entry));
    let memory: Result<Vec<Option<u64>>, NvmlError> = devices(&entry).into_iter().map(memory).collect();
    let memory: Vec<u64> = memory?.into_iter().flatten().collect();
    Ok(Some(Sample { memory, busy_percent: busy(nvml, &entry) }))
}

fn entry_of(settings: &Settings, job: JobId) -> Result<Option<Entry>, Fault> {
    let journal = Journal::open(&settings.state_dir)?;
    Ok(journal.job(job)?.filter(|entry| entry.holds() && entry.boot == journal.boot()))
}

/// UUIDs of the job's devices: its instances, or without any its GPUs.
fn devices(entry: &Entry) -> Vec<&str> {
    if entry.instances.is_empty() {
        return entry.gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
    }
    entry.instances.iter().filter_map(|i| i.live.as_ref()).map(|live| live.uuid.as_str()).collect()
}

/// The job's part of a device's memory, bytes. On a device that others share, a process is the job's by its control group, and
/// without one by its environment: a user who changes that misleads nothing but reports. `None`: the driver does not tell one
/// job from another.
fn memory_of(usage: &Usage, entry: &Entry) -> Option<u64> {
    // A compute instance's memory is that of its GPU instance.
    let shared = entry.shares_device() || entry.instances.iter().any(|i| i.part.is_some());
    let own = |pid: u32| !shared || living::job_of_process(pid) == Some(entry.job().0);
    let used: Option<u64> = usage.processes.iter().filter(|(pid, _)| own(*pid)).map(|(_, used)| *used).sum();
    used.or_else(|| (!shared).then_some(usage.used))
}

fn busy(nvml: &Nvml, entry: &Entry) -> Option<u32> {
    if !entry.has_whole_gpus() || entry.gpus.is_empty() {
        return None;
    }
    let all: Option<Vec<u32>> = entry.gpus.iter().map(|gpu| nvml.busy_percent(gpu.index).ok()).collect();
    let all = all?;
    Some(all.iter().sum::<u32>() / u32::try_from(all.len()).ok()?)
}
