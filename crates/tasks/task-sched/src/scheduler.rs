//! The queue: who asks the policy when.

use std::collections::HashMap;

use crate::device::{Device, DeviceId};
use crate::policy::{Policy, Refusal, Start, Verdict, Want};
use crate::pool::{Lease, Pool};
use crate::task::{Ask, TaskId, WorkerAsk, WorkerId};
use crate::units::Bytes;

/// The order in which waiting tasks are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As they began.
    #[default]
    Arrival,
    /// By memory, largest first; ties as they began. The artifact's order.
    Largest,
}

/// The answer to a begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The task has a lease on this device.
    Granted(DeviceId),
    /// In the queue.
    Waits,
    /// Nothing changed.
    Refused(Refusal),
    /// The program dies, and nothing changed.
    Crashed,
}

/// A waiting task that got its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The task.
    pub task: TaskId,
    /// Device.
    pub device: DeviceId,
}

/// A free of a task that neither lives nor waits; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("task {} neither lives nor waits", .0.0)]
pub struct UnknownTask(pub TaskId);

/// A pool, a policy and the tasks that wait. A daemon and the simulator drive the same one.
pub struct Scheduler {
    pool: Pool,
    policy: Box<dyn Policy>,
    order: Order,
    live: HashMap<TaskId, Lease>,
    /// In the order in which they are tried.
    waiting: Vec<Ask>,
    /// True if instances were made since the last [`Scheduler::take_remade`].
    is_remade: bool,
}

impl Scheduler {
    /// An empty queue before an empty pool.
    #[must_use]
    pub fn new(pool: Pool, policy: Box<dyn Policy>, order: Order) -> Scheduler {
        Scheduler { pool, policy, order, live: HashMap::new(), waiting: Vec::new(), is_remade: false }
    }

    /// The devices and what they have promised.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The policy that chooses.
    #[must_use]
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// Tasks without a device, in the order in which they are tried.
    #[must_use]
    pub fn waiting(&self) -> &[Ask] {
        &self.waiting
    }

    /// Tells whether instances were made since the last call. They were made before what was granted since.
    pub fn take_remade(&mut self) -> bool {
        std::mem::take(&mut self.is_remade)
    }

    /// Lets the policy make an instance for somebody, on GPUs where it may.
    fn make_room(&mut self, want: &Want) {
        if self.pool.gpus().is_some() {
            let made = self.policy.make(&self.pool, want).is_some_and(|instance| self.pool.make(instance));
            self.is_remade |= made;
        }
    }

    /// A task begins: it is answered at once, and joins the queue if there is no room.
    pub fn begin(&mut self, ask: Ask) -> Answer {
        let ask = self.as_counted(ask);
        if self.live.contains_key(&ask.task) || self.waiting.iter().any(|w| w.task == ask.task) {
            return Answer::Refused(Refusal::Begun(ask.task.0));
        }
        self.make_room(&Want::Task(ask));
        match self.policy.place(&self.pool, &ask) {
            Verdict::Grant(device) if self.lease(&ask, device) => Answer::Granted(device),
            Verdict::Grant(_) | Verdict::Wait => {
                self.policy.waits(&ask);
                self.enqueue(ask);
                Answer::Waits
            }
            Verdict::Refuse(why) => Answer::Refused(why),
            Verdict::Crash => Answer::Crashed,
        }
    }

    /// The request as the policy counts it.
    fn as_counted(&self, mut ask: Ask) -> Ask {
        if !self.policy.is_managed_soft() {
            ask.need = ask.need.all_hard();
            ask.job_mem = ask.job_mem.max(ask.need.mem());
        }
        ask
    }

    /// A task is over, or no longer waits. Call [`Scheduler::retry`] next.
    ///
    /// # Errors
    ///
    /// Where the task neither lives nor waits.
    pub fn free(&mut self, task: TaskId) -> Result<(), UnknownTask> {
        if let Some(lease) = self.live.remove(&task) {
            self.pool.give_back(lease);
        } else {
            let at = self.waiting.iter().position(|w| w.task == task).ok_or(UnknownTask(task))?;
            self.waiting.remove(at);
        }
        self.policy.freed(task);
        Ok(())
    }

    /// Tries every waiting task once and returns those that got a device, in order.
    pub fn retry(&mut self) -> Vec<Grant> {
        let mut grants = Vec::new();
        let mut still = Vec::with_capacity(self.waiting.len());
        for ask in std::mem::take(&mut self.waiting) {
            self.make_room(&Want::Task(ask));
            match self.policy.place(&self.pool, &ask) {
                Verdict::Grant(device) if self.lease(&ask, device) => {
                    grants.push(Grant { task: ask.task, device });
                }
                _ => still.push(ask),
            }
        }
        self.waiting = still;
        grants
    }

    /// Why no device could ever hold the job.
    #[must_use]
    pub fn refuses(&self, job: &WorkerAsk) -> Option<Refusal> {
        self.policy.refuses(&self.pool, job)
    }

    /// Asks the policy whether a job may start; an isolated one then has its device to itself until [`Scheduler::end`].
    pub fn start(&mut self, job: &WorkerAsk) -> Start {
        self.make_room(&Want::Job(*job));
        let start = self.policy.start(&self.pool, job);
        match start {
            Start::On(device)
                if job.isolated && self.policy.isolated_first() && !self.pool.isolate(device, job.job) =>
            {
                Start::Later
            }
            _ => start,
        }
    }

    /// A job ended, all its tasks freed.
    pub fn end(&mut self, job: WorkerId) {
        self.pool.open(job);
        self.policy.ended(job);
    }

    /// A device came; it is the caller's to retry.
    pub fn add(&mut self, device: Device) -> DeviceId {
        let id = self.pool.add(device);
        if let Some(held) = self.pool.get(id) {
            self.policy.came(id, held);
        }
        id
    }

    /// Takes a device out. `false`, and nothing changes, while a job is there.
    pub fn remove(&mut self, id: DeviceId) -> bool {
        self.pool.remove(id)
    }

    /// Lets the context of each job that comes to a device from now on take this much memory, from the job's first task
    /// there until [`Scheduler::leave`].
    pub fn set_context(&mut self, id: DeviceId, context: Bytes) {
        self.pool.set_context(id, context);
    }

    /// A job has a context of this size on a device, from before its scheduler died.
    pub fn enter(&mut self, job: WorkerId, id: DeviceId, context: Bytes) {
        self.pool.enter(job, id, context);
    }

    /// A job's contexts are gone. Those on devices where it has a live task stay.
    pub fn leave(&mut self, job: WorkerId) {
        self.pool.leave(job);
    }

    /// Sets a device's memory. It may be less than what is promised.
    pub fn set_mem(&mut self, id: DeviceId, mem: Bytes) {
        self.pool.set_mem(id, mem);
    }

    /// Keeps this much of a device's memory from everybody. It may exceed what is free.
    pub fn withhold(&mut self, id: DeviceId, mem: Bytes) {
        self.pool.withhold(id, mem);
    }

    /// Closes a device to new tasks, or opens it again.
    pub fn set_closed(&mut self, id: DeviceId, is_closed: bool) {
        self.pool.set_closed(id, is_closed);
    }

    /// Keeps a device for the tasks of one job, and no other device. Jobs that are there may go on if `guests_pass`.
    pub fn keep(&mut self, job: WorkerId, device: DeviceId, guests_pass: bool) {
        self.pool.keep(job, device, guests_pass);
    }

    /// Keeps no device for a job any more.
    pub fn unkeep(&mut self, job: WorkerId) {
        self.pool.unkeep(job);
    }

    /// Puts a task in the place that it had before its scheduler died. `false`, and nothing changes, where the device does
    /// not hold it.
    pub fn restore(&mut self, ask: &Ask, device: DeviceId) -> bool {
        let ask = self.as_counted(*ask);
        let is_held = !self.live.contains_key(&ask.task) && self.hold(&ask, device);
        if is_held {
            self.policy.restored(&self.pool, &ask, device);
        }
        is_held
    }

    fn lease(&mut self, ask: &Ask, device: DeviceId) -> bool {
        let is_held = self.hold(ask, device);
        if is_held {
            self.policy.granted(&self.pool, ask, device);
        }
        is_held
    }

    fn hold(&mut self, ask: &Ask, device: DeviceId) -> bool {
        let lease = self.pool.grant(ask, device);
        let is_held = lease.is_some();
        self.live.extend(lease.map(|lease| (ask.task, lease)));
        is_held
    }

    fn enqueue(&mut self, ask: Ask) {
        let at = match self.order {
            Order::Arrival => self.waiting.len(),
            Order::Largest => self.waiting.partition_point(|w| w.need.mem() >= ask.need.mem()),
        };
        self.waiting.insert(at, ask);
    }
}
