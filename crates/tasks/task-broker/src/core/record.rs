//! Records that must outlive the broker: its table has one record per task, and one per context of a process.

use task_sched::{Bytes, DeviceId, Need, TaskId, WorkerId};

/// A process: a pid means it only together with its start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// As the node numbers it.
    pub pid: u32,
    /// Clock ticks since boot.
    pub start: u64,
}

/// A program image of a process: `exec` makes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Image {
    /// The process.
    pub process: Process,
    /// Number that the kernel drew for this image.
    pub image: u64,
}

/// Stage of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// In the queue.
    Waiting,
    /// On its device.
    Running(DeviceId),
    /// The process ended, or heard that its job did, and NVML may still show its memory.
    Quarantined(DeviceId),
}

impl Stage {
    /// The device on which it holds memory.
    #[must_use]
    pub fn device(self) -> Option<DeviceId> {
        match self {
            Stage::Waiting => None,
            Stage::Running(id) | Stage::Quarantined(id) => Some(id),
        }
    }
}

/// A task, as it stands in the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskRecord {
    /// Number.
    pub task: TaskId,
    /// The process's name of it.
    pub nonce: u64,
    /// Stage.
    pub stage: Stage,
    /// Memory, rounded up, and the largest launch.
    pub need: Need,
    /// True if its process sees and uses only the task's device.
    pub single: bool,
    /// Seconds since the epoch at which it entered its stage.
    pub since: f64,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// Slurm's job.
    pub job: u32,
    /// The process's number in the event log.
    pub worker: WorkerId,
    /// The process.
    pub image: Image,
    /// The task or the context that it describes.
    pub of: Of,
}

/// Subject of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Of {
    /// A task.
    Task(TaskRecord),
    /// A context on a device that takes this much.
    Context(DeviceId, Bytes),
}

/// Key of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A task's.
    Task(TaskId),
    /// A context's.
    Context(WorkerId, DeviceId),
}

impl Record {
    /// Gives the record's key; a record with the same key takes its place.
    #[must_use]
    pub fn key(&self) -> Key {
        match self.of {
            Of::Task(task) => Key::Task(task.task),
            Of::Context(device, _) => Key::Context(self.worker, device),
        }
    }
}
