//! Leases and waiting tasks: the broker's own account, and what `tessera tasks --json` prints.

use serde::{Deserialize, Serialize};

/// The broker's account of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The process that restarts the broker; the broker itself where it runs in the foreground.
    pub parent: u32,
    /// The broker.
    pub child: u32,
    /// The policy's name.
    pub policy: String,
    /// The pool.
    pub devices: Vec<DeviceStatus>,
    /// The jobs that share it.
    pub jobs: Vec<JobStatus>,
}

/// A device. What can still be promised is `mem_mib` less `leased_mib`, `overhead_mib` and `quarantined_mib`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// `GPU-…` or `MIG-…`.
    pub uuid: String,
    /// Devices that one process may use together.
    pub group: String,
    /// Memory that NVML showed free when the device was opened.
    pub mem_mib: u64,
    /// Promised to live tasks.
    pub leased_mib: u64,
    /// Taken by contexts, and by processes that use more than they were promised.
    pub overhead_mib: u64,
    /// Promised to processes that have ended and whose memory NVML still shows.
    pub quarantined_mib: u64,
    /// Warps of the live tasks.
    pub warps: u64,
    /// Processes with a context.
    pub workers: u32,
    /// Why it grants nothing now.
    pub held: Option<String>,
}

/// A job of the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStatus {
    /// Slurm's job id.
    pub job: u32,
    /// User of the job.
    pub uid: u32,
    /// Slurm tasks of the job on this node.
    pub seats: u32,
    /// GPU tasks, oldest first.
    pub tasks: Vec<TaskStatus>,
}

/// A GPU task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskStatus {
    /// The broker's number of it, as in the event log.
    pub task: u64,
    /// The process that began it, as the node numbers it.
    pub pid: u32,
    /// UUID of its device; `None` while it waits.
    pub device: Option<String>,
    /// Memory that it asked for, MiB, rounded up.
    pub mem_mib: u64,
    /// Blocks times warps per block of its largest launch.
    pub warps: u64,
    /// State of the task.
    pub state: TaskState,
    /// Whole seconds since it entered this state.
    pub since_s: u64,
}

/// State of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    /// Has its device.
    Running,
    /// In the queue.
    Waiting,
    /// The process has ended and NVML still shows it.
    Quarantined,
}
