//! Events, in the order in which they took effect.

use crate::device::{Device, DeviceId};
use crate::layout::{Gpus, Instance};
use crate::pool::Pool;
use crate::scheduler::Order;
use crate::task::{Need, TaskId, WorkerId};

/// A line of a run's log. Times are seconds from the run's begin.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// First: who chooses, among which devices.
    Node {
        /// The policy's name.
        policy: &'static str,
        /// The queue's order.
        order: Order,
        /// The devices in the policy's order; none where the policy makes them.
        devices: Vec<Device>,
        /// The GPUs whose instances the policy makes.
        gpus: Option<Gpus>,
        /// Most jobs that run at a time; `None` for no limit.
        workers: Option<usize>,
    },
    /// The policy made instances; those in use before are still there, under their numbers.
    Layout {
        /// Time, seconds.
        t: f64,
        /// All instances.
        devices: Vec<(DeviceId, Device, Instance)>,
    },
    /// A job got its worker.
    Job {
        /// Time, seconds.
        t: f64,
        /// The job.
        job: WorkerId,
        /// Time of its arrival, seconds.
        arrival: f64,
        /// True if it shares its device with no other job.
        isolated: bool,
        /// The device that it is bound to.
        dev: Option<DeviceId>,
    },
    /// A task began; a grant, wait, refusal or crash follows.
    Begin {
        /// Time, seconds.
        t: f64,
        /// The task.
        task: TaskId,
        /// The job that it belongs to.
        job: WorkerId,
        /// Memory and SMs that it takes.
        need: Need,
    },
    /// A task got a device.
    Grant {
        /// Time, seconds.
        t: f64,
        /// The task.
        task: TaskId,
        /// The device that it runs on.
        dev: DeviceId,
    },
    /// A task that just began joined the queue.
    Wait {
        /// Time, seconds.
        t: f64,
        /// The task.
        task: TaskId,
    },
    /// A begin changed nothing.
    Refuse {
        /// Time, seconds.
        t: f64,
        /// The task.
        task: TaskId,
        /// Why, for people.
        why: String,
    },
    /// A task did not fit its device and its program died.
    Crash {
        /// Time, seconds.
        t: f64,
        /// The task.
        task: TaskId,
    },
    /// A task is over; the grants that it allows follow.
    Free {
        /// Time, seconds.
        t: f64,
        /// The task.
        task: TaskId,
    },
    /// A job is over.
    End {
        /// Time, seconds.
        t: f64,
        /// The job.
        job: WorkerId,
    },
}

impl Event {
    /// The first line of a log: `policy` on an empty `pool`.
    #[must_use]
    pub fn node(policy: &'static str, order: Order, pool: &Pool, workers: Option<usize>) -> Event {
        let devices = pool.devices().map(|held| *held.device()).collect();
        Event::Node { policy, order, devices, gpus: pool.gpus().cloned(), workers }
    }

    /// The instances of a pool as they are now.
    #[must_use]
    pub fn layout(t: f64, pool: &Pool) -> Event {
        let made = pool.iter().filter_map(|(id, held)| Some((id, *held.device(), *held.instance()?)));
        Event::Layout { t, devices: made.collect() }
    }
}
