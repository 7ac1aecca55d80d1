//! Looks through `/proc` for jobs' processes, MPS daemons, task brokers and step daemons of the cluster.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use lab::Cluster;
use lab::process::{Started, leftovers};

use super::slurm::order_of;

/// A live process of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::chaos) struct Task {
    pub(in crate::chaos) pid: i32,
    /// Start time, in clock ticks since boot.
    pub(in crate::chaos) since: u64,
    /// It was alive after this time, in clock ticks since boot.
    pub(in crate::chaos) seen: u64,
    pub(in crate::chaos) uid: u32,
    pub(in crate::chaos) job: u32,
    pub(in crate::chaos) order: Option<u32>,
    pub(in crate::chaos) node: String,
    /// Devices in `CUDA_VISIBLE_DEVICES`, or for a job of GPU tasks all devices that it may use.
    pub(in crate::chaos) devices: Vec<String>,
    /// True if it is a script, not one of the programs that the script runs.
    pub(in crate::chaos) is_script: bool,
    /// Directory of its MPS daemon's pipes.
    pub(in crate::chaos) mps: Option<String>,
    /// True if its job has seats among devices that GPU tasks share.
    pub(in crate::chaos) has_seats: bool,
}

/// A process of a node's broker of GPU tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::chaos) struct BrokerProcess {
    pub(in crate::chaos) pid: i32,
    pub(in crate::chaos) parent: i32,
    pub(in crate::chaos) node: Option<String>,
}

/// An MPS control daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::chaos) struct MpsDaemon {
    pub(in crate::chaos) pid: i32,
    pub(in crate::chaos) uid: u32,
    pub(in crate::chaos) node: Option<String>,
    pub(in crate::chaos) pipe_dir: String,
}

/// A slurmstepd of a job's step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::chaos) struct StepDaemon {
    pub(in crate::chaos) pid: i32,
    pub(in crate::chaos) job: u32,
    pub(in crate::chaos) node: Option<String>,
}

/// Everything of a cluster that runs for a job.
#[derive(Clone, Debug, Default)]
pub(in crate::chaos) struct Processes {
    pub(in crate::chaos) tasks: Vec<Task>,
    pub(in crate::chaos) mps: Vec<MpsDaemon>,
    pub(in crate::chaos) brokers: Vec<BrokerProcess>,
    pub(in crate::chaos) steps: Vec<StepDaemon>,
}

/// Looks for them.
pub(in crate::chaos) fn scan(cluster: &Cluster) -> Processes {
    let dir = cluster.layout().dir();
    let mark = format!("{}/", dir.display());
    let mut found = Processes::default();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(uid) = entry.metadata().map(|meta| meta.uid()) else { continue };
        let comm = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if comm.trim() == "tessera-broker" {
            found.brokers.extend(broker(pid, &mark));
            continue;
        }
        let is_mps = comm.starts_with("nvidia-cuda-mps");
        if uid == 0 && !is_mps || is_slurms(&comm) {
            continue;
        }
        let now = ticks();
        let environment = environment(&entry.path());
        if is_mps {
            found.mps.extend(mps_daemon(pid, uid, &environment, &mark));
        } else {
            let is_script = ["slurm_script", "sh"].contains(&comm.trim());
            let task = task(pid, uid, &environment, &mark);
            found.tasks.extend(task.map(|task| Task { is_script, seen: now, ..task }));
        }
    }
    found.steps = step_daemons(dir);
    found
}

/// True if it is a command of Slurm's, which has the environment of the script that it runs in and uses no GPU. An srun waits some
/// seconds for its step, and can outlive its job where no control group ends it.
fn is_slurms(comm: &str) -> bool {
    comm.trim() == "srun"
}

/// A broker says by its options which node it serves.
fn broker(pid: i32, mark: &str) -> Option<BrokerProcess> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let line = String::from_utf8_lossy(&line).into_owned();
    let mut words = line.split('\0').skip_while(|word| *word != "--run-dir");
    let node = node_in(words.nth(1)?, mark)?;
    // One that has just ended.
    Started::of("broker", pid).filter(Started::is_alive)?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
    Some(BrokerProcess { pid, parent, node: Some(node) })
}

/// Now, in clock ticks since boot: hundredths of a second, as `/proc/PID/stat` has them.
pub(in crate::chaos) fn ticks() -> u64 {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let digits: String =
        text.split(' ').next().unwrap_or_default().chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

type Environment = BTreeMap<String, String>;

fn environment(proc: &Path) -> Environment {
    let bytes = fs::read(proc.join("environ")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.split('\0')
        .filter_map(|word| word.split_once('='))
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect()
}

/// A process whose environment is a task's. Slurm's TaskProlog sets `NVML_SIM_STATE` after Tessera has set the devices,
/// so one that has it has both.
fn task(pid: i32, uid: u32, environment: &Environment, mark: &str) -> Option<Task> {
    let get = |key: &str| environment.get(key).map(String::as_str);
    get("NVML_SIM_STATE").filter(|path| path.starts_with(mark))?;
    let has_seats = get("TESSERA_ISOLATION") == Some("gpu-tasks");
    // The library chooses one of the job's devices for each process, and sets the other variable then.
    let names = if has_seats { "NVIDIA_VISIBLE_DEVICES" } else { "CUDA_VISIBLE_DEVICES" };
    let devices = get(names).map(device_list).unwrap_or_default();
    Some(Task {
        pid,
        since: Started::of("task", pid)?.since,
        seen: 0,
        uid,
        job: get("SLURM_JOB_ID")?.parse().ok()?,
        order: get("SLURM_JOB_NAME").and_then(order_of),
        node: get("SLURMD_NODENAME")?.to_owned(),
        devices,
        is_script: false,
        mps: get("CUDA_MPS_PIPE_DIRECTORY").map(str::to_owned),
        has_seats,
    })
}

/// The devices that `CUDA_VISIBLE_DEVICES` names.
pub(super) fn device_list(text: &str) -> Vec<String> {
    text.split(',').filter(|name| !name.is_empty() && *name != "NoDevFiles").map(str::to_owned).collect()
}

fn mps_daemon(pid: i32, uid: u32, environment: &Environment, mark: &str) -> Option<MpsDaemon> {
    let pipe_dir = environment.get("CUDA_MPS_PIPE_DIRECTORY").filter(|path| path.starts_with(mark))?;
    // One that has just ended.
    Started::of("mps", pid).filter(Started::is_alive)?;
    Some(MpsDaemon { pid, uid, node: node_in(pipe_dir, mark), pipe_dir: pipe_dir.clone() })
}

/// The node in `MARKnodes/n1/run/…`.
fn node_in(path: &str, mark: &str) -> Option<String> {
    path.strip_prefix(mark)?.strip_prefix("nodes/")?.split('/').next().map(str::to_owned)
}

/// Step daemons, by their titles: `slurmstepd: [2.batch]`. A title does not say the node; the open socket's name does.
fn step_daemons(dir: &Path) -> Vec<StepDaemon> {
    let title = |process: Started| {
        let bytes = fs::read(format!("/proc/{}/cmdline", process.pid)).ok()?;
        let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
        let job = text.strip_prefix("slurmstepd: [")?.split(['.', ']']).next()?.parse().ok()?;
        Some(StepDaemon { pid: process.pid, job, node: node_of_step(process.pid, dir) })
    };
    leftovers(dir).into_iter().filter_map(title).collect()
}

/// slurmstepd works in its node's spool directory, or has that node's log open.
fn node_of_step(pid: i32, dir: &Path) -> Option<String> {
    let log = dir.join("log");
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.filter_map(|fd| fs::read_link(fd.path()).ok())
        // In a chroot the path begins with the chroot's.
        .filter(|path| path.to_string_lossy().contains(&*log.to_string_lossy()))
        .find_map(|path| {
            path.file_name()?.to_str()?.strip_prefix("slurmd-")?.strip_suffix(".log").map(str::to_owned)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(words: &[(&str, &str)]) -> Environment {
        words.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn an_srun_that_outlives_its_job_is_none_of_its_tasks() {
        assert!(is_slurms("srun\n") && !is_slurms("slurm_script\n") && !is_slurms("churn\n"));
    }

    #[test]
    fn a_task_is_known_by_its_environment() {
        let own = std::process::id().cast_signed();
        let mut all = environment(&[
            ("NVML_SIM_STATE", "/tmp/x/nodes/n1/sim.state"),
            ("CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b"),
            ("SLURM_JOB_ID", "17"),
            ("SLURM_JOB_NAME", "chaos4"),
            ("SLURMD_NODENAME", "n1"),
        ]);
        let found = task(own, 1001, &all, "/tmp/x/").unwrap();
        assert_eq!((found.job, found.order, found.node.as_str()), (17, Some(4), "n1"));
        assert_eq!(found.devices, ["MIG-a", "MIG-b"]);
        assert!(!found.has_seats);
        let mut seated = all.clone();
        seated.insert("TESSERA_ISOLATION".to_owned(), "gpu-tasks".to_owned());
        seated.insert("NVIDIA_VISIBLE_DEVICES".to_owned(), "MIG-a,MIG-c".to_owned());
        let found = task(own, 1001, &seated, "/tmp/x/").unwrap();
        assert_eq!(found.devices, ["MIG-a", "MIG-c"]);
        assert!(found.has_seats);
        assert_eq!(task(own, 1001, &all, "/tmp/y/"), None, "another cluster's");
        all.remove("NVML_SIM_STATE");
        assert_eq!(task(own, 1001, &all, "/tmp/x/"), None, "not yet a task's environment");
        assert_eq!(device_list("NoDevFiles"), Vec::<String>::new());
        assert_eq!(node_in("/tmp/x/nodes/n2/run/mps/gpu1/pipe", "/tmp/x/").as_deref(), Some("n2"));
    }
}
