//! Assignment of devices to tasks, as data: no socket, no clock, no NVML.
//!
//! # Words
//!
//! A *worker* is one program image of a process that asked for a task; the event lines call it a job. Its
//! number is its `job` there. A *group* is the devices that one process may use together. A worker *holds* while one of its
//! tasks runs. It *grows* when it asks for more while it holds.
//!
//! # Rules
//!
//! - `task_sched::Scheduler` chooses the device, by the policy that the simulator runs. This module says what may be asked for.
//! - The first grant binds a worker to the device's group for good: CUDA cannot see more later.
//! - Memory is rounded up to [`GRANULE`]; the first task of a worker on a device also takes the device's `context`.
//! - A worker that grows gets the memory at once, or it waits before all others with one device kept for it, or it is
//!   refused: where a worker of its group waits like that already, or where it would not be enough that all others free their
//!   tasks. A worker that waits otherwise holds no task.
//! - Contexts stay until their processes end, and a process that waits does not end. What is *certain* is therefore a device's
//!   memory less the contexts of all possible workers. A worker with a context that asks for more than that gets it at once,
//!   or waits as the only one of its group while the others there go on, or is refused. Nobody waits in a circle.
//! - The tasks of a worker that ended stay *quarantined* until NVML shows none of it on its devices.
//! - Memory that NVML shows in use and that no live promise explains is *withheld* from everybody.
//!
//! Every change returns [`Effect`]s, to be carried out in order: a record is saved before the answer that relies on it.

mod begin;
mod finish;
mod grow;
mod job;
mod mps;
mod record;
mod restore;
mod sample;
mod status;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};

use task_sched::{Bytes, Device, DeviceId, Event, Order, Pool, Scheduler, TaskId, WorkerId, policy};
use task_wire::Reply;

pub(crate) use finish::unknown;
pub use job::{AddError, Opened};
pub use record::{Image, Key, Of, Process, Record, Stage, TaskRecord};
pub use sample::{Sample, Seen};
use tasks::Tasks;

/// Memory is given out in units of CUDA's physical allocation granularity.
pub const GRANULE: u64 = 2 << 20;

/// Most tasks of one job: begun and neither freed nor buried.
pub const JOB_TASKS: usize = 1024;

/// Most tasks of the jobs of one user: what one fills leaves room for others.
const USER_TASKS: usize = ALL_TASKS / 4;

/// Most tasks of all jobs.
pub const ALL_TASKS: usize = 16 * 1024;

/// The policies that the broker offers, the default first. Under `alg2` tasks also wait for SMs, but not those of a process
/// that holds: it could wait for SMs of its own.
pub const POLICIES: [&str; 3] = policy::NAMES;

/// Something to carry out.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "lists of effects are short and live briefly")]
pub enum Effect {
    /// A line of the event log.
    Log(serde_json::Value),
    /// Write a record to the table.
    Save(Record),
    /// Remove a record from the table.
    Erase(Key),
    /// Tell a process, on all its connections.
    Reply(Process, Reply),
    /// A process uses this many bytes more on the device than it was promised.
    Overuse {
        /// The process.
        process: Process,
        /// The device's UUID.
        uuid: String,
        /// Bytes.
        excess: u64,
        /// True if it was so at the last look too.
        lasts: bool,
    },
}

/// A device of the pool.
#[derive(Clone, Debug)]
struct Dev {
    uuid: String,
    group: String,
    mps_pipe: Option<String>,
    /// The least that was seen in use since it was opened, bytes.
    baseline: u64,
    /// In use and free when it was opened, and what is described, bytes.
    total: u64,
    described: u64,
    /// Why root holds it back.
    held: Option<String>,
    /// Why NVML does not answer for it.
    lost: Option<String>,
    /// True if its MPS daemon or server ended while processes were there.
    is_without_mps: bool,
    /// Whom NVML showed at the last look: MPS servers, and all others.
    servers: BTreeSet<Process>,
    clients: BTreeSet<Process>,
    /// Bytes that no promise explains.
    withheld: u64,
    /// Processes that used more than promised at the last look.
    over: BTreeSet<Process>,
}

impl Dev {
    /// Memory that can be promised if others leave no more than this.
    fn mem(&self, others: u64) -> Bytes {
        Bytes(self.total.saturating_sub(others).min(self.described))
    }
}

/// A job of Slurm's.
#[derive(Clone, Debug)]
struct Job {
    uid: u32,
    seats: u32,
    declared: Option<u64>,
    /// In the order in which they were named.
    devices: Vec<DeviceId>,
}

/// A program image that asked for a task.
#[derive(Clone, Debug)]
struct Worker {
    image: Image,
    job: u32,
    group: Option<String>,
    /// The only device that it sees, if it is bound to one of a group.
    single: Option<DeviceId>,
    is_alive: bool,
    /// Rounds of looks since it ended.
    looks: u32,
    /// Devices on which it was granted something.
    present: BTreeSet<DeviceId>,
}

/// A task that lives, waits or is quarantined.
#[derive(Clone, Copy, Debug)]
struct Task {
    worker: WorkerId,
    record: TaskRecord,
}

/// The worker of a group that holds and waits, and the device kept for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Grower {
    worker: WorkerId,
    device: DeviceId,
}

/// The whole state.
pub struct Core {
    sched: Scheduler,
    /// True if the lines of the event log are read: to make them takes longer than to decide.
    is_logged: bool,
    /// `alg3` leaves some memory free on every device.
    is_strict: bool,
    /// Memory that a context takes before one was measured.
    context: Bytes,
    devices: BTreeMap<DeviceId, Dev>,
    jobs: BTreeMap<u32, Job>,
    workers: BTreeMap<WorkerId, Worker>,
    images: BTreeMap<Image, WorkerId>,
    tasks: Tasks,
    /// By group.
    growers: BTreeMap<String, Grower>,
    next_task: u64,
    next_worker: u64,
    effects: Vec<Effect>,
}

impl Core {
    /// An empty pool under the policy of this name; `None` for a name not in [`POLICIES`].
    #[must_use]
    pub fn new(policy: &str, context: Bytes) -> Option<Core> {
        let chosen = policy::by_name(policy)?;
        Some(Core {
            is_logged: true,
            is_strict: policy == "alg3",
            tasks: Tasks::new(chosen.is_managed_soft()),
            sched: Scheduler::new(Pool::new(&[]), chosen, Order::Arrival),
            context: round_up(context),
            devices: BTreeMap::new(),
            jobs: BTreeMap::new(),
            workers: BTreeMap::new(),
            images: BTreeMap::new(),
            growers: BTreeMap::new(),
            next_task: 1,
            next_worker: 1,
            effects: Vec::new(),
        })
    }

    /// Makes no [`Effect::Log`] from now on.
    pub fn stop_log(&mut self) {
        self.is_logged = false;
    }

    /// Slurm's jobs.
    pub fn jobs(&self) -> impl Iterator<Item = u32> {
        self.jobs.keys().copied()
    }

    /// The devices' UUIDs, of those that NVML must show from time to time.
    pub fn uuids(&self) -> impl Iterator<Item = (DeviceId, &str)> {
        self.devices.iter().map(|(id, dev)| (*id, dev.uuid.as_str()))
    }

    /// Tells whether a process has tasks or contexts, or is still on a device.
    #[must_use]
    pub fn knows(&self, process: Process) -> bool {
        self.images_of(process).next().is_some()
    }

    /// The live processes with tasks or contexts.
    pub fn processes(&self) -> BTreeSet<Process> {
        self.workers.values().filter(|w| w.is_alive).map(|w| w.image.process).collect()
    }

    /// Tells whether NVML must be asked soon, because a worker ended.
    #[must_use]
    pub fn awaits_ends(&self) -> bool {
        self.workers.values().any(|worker| !worker.is_alive)
    }

    /// Tells whether any worker has a context or a task, or waits for one.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        !self.workers.is_empty()
    }

    /// The tasks that wait, with the process images that asked for them.
    #[must_use]
    pub fn waiting(&self) -> Vec<(Image, u64)> {
        let waiting = self.tasks.values().filter(|task| task.record.stage == Stage::Waiting);
        waiting.filter_map(|task| Some((self.workers.get(&task.worker)?.image, task.record.nonce))).collect()
    }

    /// A job's user and what it declared; `None` for a job that is not there.
    #[must_use]
    pub fn job(&self, job: u32) -> Option<(u32, Option<u64>)> {
        self.jobs.get(&job).map(|job| (job.uid, job.declared))
    }

    /// Gives the memory that NVML showed of a device when it was opened.
    #[must_use]
    pub fn opened(&self, uuid: &str) -> Option<Opened> {
        let id = self.device(uuid)?;
        let (dev, held) = (self.devices.get(&id)?, self.sched.pool().get(id)?);
        Some(Opened { uuid: uuid.to_owned(), free: held.device().mem.0, used: dev.baseline })
    }

    /// The number of the device with this UUID.
    #[must_use]
    pub fn device(&self, uuid: &str) -> Option<DeviceId> {
        self.devices.iter().find(|(_, dev)| dev.uuid == uuid).map(|(id, _)| *id)
    }

    /// The UUID of a device.
    #[must_use]
    pub fn uuid(&self, id: DeviceId) -> Option<&str> {
        self.devices.get(&id).map(|dev| dev.uuid.as_str())
    }

    fn images_of(&self, process: Process) -> impl Iterator<Item = WorkerId> {
        let [first, last] = [0, u64::MAX].map(|image| Image { process, image });
        self.images.range(first..=last).map(|(_, worker)| *worker)
    }

    /// The effects of what was done since the last call.
    fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    fn log(&mut self, event: &Event, worker: Option<WorkerId>, device: Option<DeviceId>) {
        if !self.is_logged {
            return;
        }
        let mut line = task_sched::event_line::value(event);
        if let Some(worker) = worker.and_then(|id| self.workers.get(&id)) {
            line["pid"] = worker.image.process.pid.into();
        }
        if let Some(dev) = device.and_then(|id| self.devices.get(&id)) {
            line["uuid"] = dev.uuid.as_str().into();
        }
        self.effects.push(Effect::Log(line));
    }

    fn tell(&mut self, worker: WorkerId, reply: Reply) {
        if let Some(worker) = self.workers.get(&worker) {
            self.effects.push(Effect::Reply(worker.image.process, reply));
        }
    }

    fn save_task(&mut self, id: TaskId) {
        let Some(task) = self.tasks.get(id) else { return };
        let Some(worker) = self.workers.get(&task.worker) else { return };
        let (job, image, of) = (worker.job, worker.image, Of::Task(task.record));
        self.effects.push(Effect::Save(Record { job, worker: task.worker, image, of }));
    }

    fn forget_task(&mut self, id: TaskId) {
        if self.tasks.remove(id).is_some() {
            self.effects.push(Effect::Erase(Key::Task(id)));
        }
    }

    fn stage(&self, id: TaskId) -> Option<Stage> {
        self.tasks.get(id).map(|task| task.record.stage)
    }

    fn set_stage(&mut self, id: TaskId, stage: Stage, t: f64) {
        self.tasks.set_stage(id, stage, t);
        self.save_task(id);
    }
}

/// `mem` in whole granules.
fn round_up(mem: Bytes) -> Bytes {
    Bytes(mem.0.checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX))
}

/// Describes a device to the pool.
fn device_of(described: &task_control::Device, free: Bytes) -> Device {
    let mem = free.min(Bytes::from_mib(described.memory_mib));
    // A GPU of any model holds at least these warps and blocks per SM; only parts of devices are compared.
    Device { mem, sms: described.sms.max(1), max_workers: Some(described.workers), ..Device::P100 }
}
