//! Events that the broker and the simulator both log, in the order in which they took effect.

use crate::device::DeviceId;
use crate::task::{TaskId, WorkerId};

/// A line of a run's log. Times are seconds from the run's begin.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
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
