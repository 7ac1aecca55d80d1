//! What a job does with each of its devices at one moment.

use std::path::Path;

use job_sample::{busy_percent, devices, may_have_others, memory_of, watch, whole_busy};
use job_usage::{present, slurm_process};
use node_driver::nvml::{Nvml, NvmlError};
use node_driver::process;
use node_journal::Entry;

/// A device of a job at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceUse {
    /// UUID of the GPU or instance.
    pub uuid: String,
    /// Memory of these processes, bytes.
    pub memory: u64,
    /// The processes there that are the job's, or may be.
    pub processes: usize,
    /// Utilisation by the job, percent. On a GPU that several jobs share: 0 if none of them computes, else `None`.
    pub busy_percent: Option<f64>,
}

/// Looks at each device of a job. Takes as long as [`job_sample::sample`].
///
/// # Errors
///
/// The driver cannot be loaded, or it does not answer for one of the devices.
pub fn each_device(nvml_library: &Path, entry: &Entry) -> Result<Vec<DeviceUse>, NvmlError> {
    let nvml = Nvml::load(nvml_library)?;
    let one = |uuid: &str| {
        let usage = nvml.usage(entry.gpu_with(uuid), uuid)?;
        let processes = usage.processes.iter().filter(|(pid, _)| may_be_own(*pid, entry)).count();
        let memory = memory_of(&usage, entry, may_be_own).unwrap_or(0);
        Ok(DeviceUse { uuid: uuid.to_owned(), memory, processes, busy_percent: None })
    };
    let all: Result<Vec<DeviceUse>, NvmlError> = devices(entry).into_iter().map(one).collect();
    let mut all = all?;
    let busy = match (entry.instances.is_empty(), entry.has_whole_gpus()) {
        (false, _) => watch(nvml_library, nvml, entry),
        (true, true) => whole_busy(&nvml, entry),
        (true, false) => Ok(None),
    };
    match busy {
        Ok(Some(busy)) if busy.len() == all.len() => {
            all.iter_mut().zip(busy).for_each(|(device, busy)| device.busy_percent = Some(busy));
        }
        _ if entry.instances.is_empty() => unused(nvml_library, entry, &mut all)?,
        _ => {}
    }
    Ok(all)
}

/// Marks shared GPUs on which no job computes.
fn unused(nvml_library: &Path, entry: &Entry, all: &mut [DeviceUse]) -> Result<(), NvmlError> {
    let nvml = Nvml::load(nvml_library)?;
    for (device, gpu) in all.iter_mut().zip(&entry.gpus) {
        let busy = busy_percent(&nvml, present::find(&nvml, gpu)?.index);
        device.busy_percent = busy.ok().filter(|busy| *busy == 0).map(f64::from);
    }
    Ok(())
}

/// Tells whether a process is the job's for all that is known. Where Slurm makes no control groups, a program that has emptied its
/// environment names no job: it may be of any job of its user.
fn may_be_own(pid: u32, entry: &Entry) -> bool {
    !may_have_others(entry)
        || slurm_process::is_of_job(pid, entry).unwrap_or_else(|| process::owner(pid) == Some(entry.uid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_names_no_job_may_be_its_users() {
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
        for (job, expected) in [(None, [true, false]), (Some("12"), [true; 2]), (Some("7"), [false; 2])] {
            let mut running = program(job);
            let pid = running.id();
            // It has its environment a moment after it is there.
            let begun = (0..1000).any(|_| process::variable(pid, "A").as_deref() == Some("b"));
            let found = [uid, uid + 1].map(|uid| may_be_own(pid, &entry(uid, "shards")));
            running.kill().unwrap();
            running.wait().unwrap();
            assert!(begun);
            assert_eq!(found, expected, "{job:?}");
        }
    }
}
