//! Events of a run, in the order in which they took effect, and their lines.

use serde_json::{Value, json};
use task_sched::event_line::{self, Begin};
use task_sched::{Device, DeviceId, Event as Sched, Gpus, Instance, Need, Order, Pool, TaskId, WorkerId};

/// A line of a run's log. Times are seconds from the run's begin.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEvent {
    /// An event that a broker logs, too.
    Sched(Sched),
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
    /// A task did not fit its device and its program died.
    Crash {
        /// Time, seconds.
        t: f64,
        /// The task.
        task: TaskId,
    },
}

impl RunEvent {
    /// The first line of a log: `policy` on an empty `pool`.
    #[must_use]
    pub fn node(policy: &'static str, order: Order, pool: &Pool, workers: Option<usize>) -> RunEvent {
        let devices = pool.devices().map(|held| *held.device()).collect();
        RunEvent::Node { policy, order, devices, gpus: pool.gpus().cloned(), workers }
    }

    /// The instances of a pool as they are now.
    #[must_use]
    pub fn layout(t: f64, pool: &Pool) -> RunEvent {
        let made = pool.iter().filter_map(|(id, held)| Some((id, *held.device(), *held.instance()?)));
        RunEvent::Layout { t, devices: made.collect() }
    }
}

fn made(dev: DeviceId, of: &Device, instance: &Instance) -> Value {
    let mut value = event_line::device(dev.0, of);
    value["gpu"] = json!(instance.gpu);
    value["profile"] = json!(instance.profile.name);
    value["start"] = json!(instance.start.0);
    value
}

fn node(
    policy: &str,
    order: Order,
    workers: Option<usize>,
    devices: &[Device],
    gpus: Option<&Gpus>,
) -> Value {
    let order = match order {
        Order::Arrival => "arrival",
        Order::Largest => "largest",
    };
    let devices: Vec<Value> =
        devices.iter().enumerate().map(|(dev, of)| event_line::device(dev, of)).collect();
    let mut value =
        json!({ "ev": "node", "policy": policy, "order": order, "workers": workers, "devices": devices });
    if let Some(gpus) = gpus {
        value["model"] = json!(gpus.model().key);
        value["gpus"] = json!(gpus.count());
    }
    value
}

fn begin(t: f64, task: TaskId, job: WorkerId, need: &Need) -> Value {
    let (mem, managed, threads) = (need.mem().0, need.managed(), need.threads().into());
    Begin { t, task: task.0, job: job.0, mem, managed, blocks: need.blocks(), threads }.json()
}

/// An event as a line.
#[must_use]
pub fn line(event: &RunEvent) -> String {
    format!("{}\n", value(event))
}

/// An event as an object.
#[must_use]
pub fn value(event: &RunEvent) -> Value {
    match event {
        RunEvent::Sched(event) => event_line::value(event),
        RunEvent::Node { policy, order, devices, gpus, workers } => {
            node(policy, *order, *workers, devices, gpus.as_ref())
        }
        RunEvent::Layout { t, devices } => {
            let devices: Vec<Value> =
                devices.iter().map(|(dev, of, instance)| made(*dev, of, instance)).collect();
            json!({ "ev": "layout", "t": t, "devices": devices })
        }
        RunEvent::Begin { t, task, job, need } => begin(*t, *task, *job, need),
        RunEvent::Crash { t, task } => json!({ "ev": "crash", "t": t, "task": task.0 }),
    }
}
