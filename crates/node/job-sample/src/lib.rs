//! Samples memory, utilisation and traffic of a job's devices, as the driver reports them. Changes no device and no entry, takes no lock.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

#[expect(unsafe_code, reason = "NVML's C interface; every block names whose promise it relies on")]
mod ffi;
mod instance_busy;
mod traffic;

use std::path::Path;
use std::thread;

use geometry::JobId;

use job_usage::present;
use job_usage::slurm_process;
use job_usage::{Places, UsageError};
use node_driver::NvmlIndex;
use node_driver::nvml::{Nvml, NvmlError, Usage, at};
use node_journal::{Entry, GpuRecord, GrantKind, InstanceRecord, Journal};

use ffi::OpenGpu;
pub use instance_busy::BETWEEN_LOOKS;
use instance_busy::{FirstLook, counts_for_instances};
pub use traffic::{BothWays, nvlink_bytes};

/// Present memory and utilisation of a job's devices on this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Memory of the job's processes on each of its devices, bytes. A device is an instance, a whole GPU, or what the job has
    /// a share of.
    pub memory: Vec<u64>,
    /// Utilisation of its whole GPUs or its instances, percent, the mean over them. `None` for instances before Hopper, and
    /// where other jobs may use the same device or GPU instance: of these the driver tells no utilisation.
    pub busy_percent: Option<u32>,
    /// Traffic of its whole GPUs.
    pub traffic: Vec<GpuTraffic>,
}

/// Kinds of traffic that a sample asks the driver for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficWanted {
    /// Bytes over NVLink.
    pub nvlink: bool,
    /// The present rate over PCIe. It takes 40 ms for each GPU.
    pub pcie: bool,
}

/// Traffic of a GPU that the job has alone. Other jobs' bytes on a shared GPU cannot be told from the job's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuTraffic {
    /// UUID of the GPU.
    pub uuid: String,
    /// Bytes over NVLink since the driver was loaded.
    pub nvlink: Option<BothWays>,
    /// Bytes per second over PCIe now, to and from other GPUs and the host.
    pub pcie_rate: Option<BothWays>,
}

/// True where the job has a device here. Reads the journal alone.
///
/// # Errors
///
/// The journal cannot be read.
pub fn has_devices(places: &Places, job: JobId) -> Result<bool, UsageError> {
    Ok(entry_of(places, job)?.is_some_and(|entry| !devices(&entry).is_empty()))
}

/// Looks at the devices of a job; `None` for a job that has none here. Takes [`BETWEEN_LOOKS`] for a job with instances whose
/// utilisation the driver counts.
///
/// # Errors
///
/// The journal cannot be read, the driver cannot be loaded, or it does not answer for one of the devices.
pub fn sample(places: &Places, job: JobId, wanted: TrafficWanted) -> Result<Option<Sample>, UsageError> {
    let Some(entry) = entry_of(places, job)? else { return Ok(None) };
    let nvml = Nvml::load(&places.nvml_library)?;
    let memory = |uuid: &str| Ok(memory_of(&nvml.usage(entry.gpu_with(uuid), uuid)?, &entry, is_own));
    let memory: Result<Vec<Option<u64>>, NvmlError> = devices(&entry).into_iter().map(memory).collect();
    let memory: Vec<u64> = memory?.into_iter().flatten().collect();
    let traffic = traffic_of(&nvml, &entry, wanted);
    // What the driver does not tell of the utilisation costs no memory.
    let busy = if entry.instances.is_empty() {
        whole_busy(&nvml, &entry)
    } else {
        watch(&places.nvml_library, nvml, &entry)
    };
    Ok(Some(Sample { memory, busy_percent: busy.ok().flatten().and_then(|all| mean(&all)), traffic }))
}

fn entry_of(places: &Places, job: JobId) -> Result<Option<Entry>, UsageError> {
    let journal = Journal::open(&places.state_dir)?;
    Ok(journal.job(job)?.filter(|entry| entry.holds() && entry.boot == journal.boot()))
}

/// UUIDs of the job's devices: its instances, or without any its GPUs.
#[must_use]
pub fn devices(entry: &Entry) -> Vec<&str> {
    if entry.instances.is_empty() {
        return entry.gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
    }
    entry.instances.iter().filter_map(|i| i.live.as_ref()).map(|live| live.uuid.as_str()).collect()
}

/// The job's part of a device's memory, bytes. On a device that others share, a process is the job's by its control group, and
/// without one by its environment: a user who changes that misleads nothing but reports. `None`: the driver does not tell one
/// job from another.
#[must_use]
pub fn memory_of(usage: &Usage, entry: &Entry, own: fn(u32, &Entry) -> bool) -> Option<u64> {
    let own = usage.processes.iter().filter(|(pid, _)| own(*pid, entry));
    let used: Option<u64> = own.map(|(_, used)| *used).sum();
    used.or_else(|| (!may_have_others(entry)).then_some(usage.used))
}

/// Tells whether other jobs' processes may be on the same devices. A compute instance's memory is that of its GPU instance.
#[must_use]
pub fn may_have_others(entry: &Entry) -> bool {
    entry.shares_device()
        || entry.kind == GrantKind::Shards
        || entry.instances.iter().any(|i| i.part.is_some())
}

fn is_own(pid: u32, entry: &Entry) -> bool {
    !may_have_others(entry) || slurm_process::is_of_job(pid, entry) == Some(true)
}

/// Traffic of a job's whole GPUs. A GPU or a number that the driver does not give is left out.
fn traffic_of(nvml: &Nvml, entry: &Entry, wanted: TrafficWanted) -> Vec<GpuTraffic> {
    if !entry.has_whole_gpus() || wanted == TrafficWanted::default() {
        return Vec::new();
    }
    let one = |gpu: &GpuRecord| {
        let index = present::find(nvml, gpu).ok()?.index;
        let nvlink = if wanted.nvlink { nvlink_bytes(nvml, index) } else { None };
        let pcie_rate = if wanted.pcie { traffic::pcie_rate(nvml, index) } else { None };
        Some(GpuTraffic { uuid: gpu.uuid.clone(), nvlink, pcie_rate })
    };
    entry.gpus.iter().filter_map(one).collect()
}

/// Utilisation of each of a job's whole GPUs, percent.
///
/// # Errors
///
/// The driver does not answer for one of them.
pub fn whole_busy(nvml: &Nvml, entry: &Entry) -> Result<Option<Vec<f64>>, NvmlError> {
    if !entry.has_whole_gpus() {
        return Ok(None);
    }
    let busy = |gpu| busy_percent(nvml, present::find(nvml, gpu)?.index).map(f64::from);
    entry.gpus.iter().map(busy).collect::<Result<_, _>>().map(Some)
}

/// The GPU's utilisation in the last moments, percent of the time in which a kernel ran. The driver does not tell it in MIG mode.
///
/// # Errors
///
/// As NVML answers.
pub fn busy_percent(nvml: &Nvml, gpu: NvmlIndex) -> Result<u32, NvmlError> {
    OpenGpu::of(nvml, gpu)?.utilisation().map_err(at(gpu, "cannot read its utilisation"))
}

/// Watches a job's instances for [`BETWEEN_LOOKS`], if the driver counts for each what the job alone does.
///
/// # Errors
///
/// The driver does not answer for one of them.
pub fn watch(nvml_library: &Path, nvml: Nvml, entry: &Entry) -> Result<Option<Vec<f64>>, NvmlError> {
    // The driver counts for a GPU instance, whoever computes in it.
    if entry.shares_device() || entry.instances.iter().any(|i| i.part.is_some()) {
        return Ok(None);
    }
    let found: Result<Vec<NvmlIndex>, NvmlError> =
        entry.instances.iter().map(|i| gpu_now(&nvml, entry, i)).collect();
    let gpus = found?;
    let counts: Result<Vec<bool>, NvmlError> =
        gpus.iter().map(|gpu| counts_for_instances(&nvml, *gpu)).collect();
    if counts?.contains(&false) {
        return Ok(None);
    }
    // The search for a UUID may have opened any GPU. Meanwhile none may be held whose MIG mode a prolog could want to switch:
    // loaded anew, the driver opens those GPUs alone that are asked for by number.
    drop(nvml);
    instances_busy(&Nvml::load(nvml_library)?, entry, &gpus)
}

/// NVML's number of an instance's GPU now.
fn gpu_now(nvml: &Nvml, entry: &Entry, instance: &InstanceRecord) -> Result<NvmlIndex, NvmlError> {
    match entry.gpu_of(instance) {
        Some(gpu) => Ok(present::find(nvml, gpu)?.index),
        // No entry of ours is so.
        None => Ok(instance.gpu),
    }
}

/// `gpus` are those of the job's instances, in their order.
fn instances_busy(nvml: &Nvml, entry: &Entry, gpus: &[NvmlIndex]) -> Result<Option<Vec<f64>>, NvmlError> {
    let look = |(i, gpu): (&InstanceRecord, &NvmlIndex)| match &i.live {
        Some(live) => FirstLook::at(nvml, *gpu, live.gi).map(Some),
        None => Ok(None),
    };
    let looks: Result<Option<Vec<FirstLook<'_>>>, NvmlError> =
        entry.instances.iter().zip(gpus).map(look).collect();
    let Some(looks) = looks? else { return Ok(None) };
    thread::sleep(BETWEEN_LOOKS);
    looks.into_iter().map(FirstLook::busy_percent).collect::<Result<_, _>>().map(Some)
}

/// The mean of percentages, rounded; `None` of none.
fn mean(percent: &[f64]) -> Option<u32> {
    let count = u32::try_from(percent.len()).ok().filter(|count| *count > 0)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
    let mean = (percent.iter().sum::<f64>() / f64::from(count)).round() as u32;
    Some(mean)
}

#[cfg(test)]
mod tests {
    use node_driver::process;

    use super::*;

    #[test]
    fn a_program_that_names_no_job_is_nobodys() {
        let entry = |uid: u32, kind: &str| -> Entry {
            serde_json::from_value(serde_json::json!({
                "version": 2, "boot": "b", "job": 12, "uid": uid, "gid": uid, "restart": 0, "decision": "",
                "phase": "ready", "kind": kind, "gpus": [], "instances": [], "share": null, "device_nodes": [],
            }))
            .unwrap()
        };
        let program = |job: Option<&str>| {
            let mut sleep = std::process::Command::new("sleep");
            sleep
                .arg("60")
                .env_clear()
                .envs(job.map(|job| ("SLURM_JOB_ID", job)))
                .env("A", "b")
                .spawn()
                .unwrap()
        };
        let uid = process::owner(std::process::id()).unwrap();
        for (job, expected) in [(None, false), (Some("12"), true), (Some("7"), false)] {
            let mut running = program(job);
            let pid = running.id();
            // It has its environment a moment after it is there.
            let begun = (0..1000).any(|_| process::variable(pid, "A").as_deref() == Some("b"));
            let of = |kind: &str| [uid, uid + 1].map(|uid| is_own(pid, &entry(uid, kind)));
            let found = (of("whole"), of("shards"));
            running.kill().unwrap();
            running.wait().unwrap();
            assert!(begun);
            assert_eq!(found, ([true; 2], [expected; 2]), "{job:?}");
        }
    }
}
