//! Policies that choose the device of a task.

mod alg2;
mod alg3;
mod tessera;

use crate::device::DeviceId;
use crate::layout::Instance;
use crate::pool::{Held, Pool};
use crate::task::{Ask, TaskId, WorkerAsk, WorkerId};
use crate::units::Bytes;

pub use alg2::Alg2;
pub use alg3::{Alg3, fewest_warps};
pub use tessera::{OVERTAKEN_AT_MOST, Tessera};

/// A policy's decision on a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// To this device, whose free memory holds it.
    Grant(DeviceId),
    /// Nowhere now.
    Wait,
    /// Nowhere, ever.
    Refuse(Refusal),
    /// To a device whose memory does not hold it: the program dies (`cg` alone).
    Crash,
}

/// Why a task can never be placed, or cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Larger than any device that the policy could give.
    #[error("the task needs {need}; the largest device has {largest}")]
    TooLarge {
        /// Memory that the task needs.
        need: Bytes,
        /// The most that a device has.
        largest: Bytes,
    },
    /// As large as the largest device under a policy that always leaves some memory free.
    #[error("the task needs {need}; this policy gives less than the {largest} of the largest device")]
    NotBelow {
        /// Memory that the task needs.
        need: Bytes,
        /// The most that a device has.
        largest: Bytes,
    },
    /// Larger than the one device that it may use.
    #[error("the task needs {need}; its device has {device}")]
    AboveDevice {
        /// Memory that the task needs.
        need: Bytes,
        /// Memory that its device has.
        device: Bytes,
    },
    /// The id belongs to a task that lives or waits.
    #[error("task {0} has already begun and was not freed")]
    Begun(u64),
    /// No lease covers the id.
    #[error("task {0} neither lives nor waits")]
    Unknown(u64),
}

/// A policy's decision on a job that is about to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Any device may take the tasks.
    Anywhere,
    /// All its tasks go to one device.
    On(DeviceId),
    /// Waits for a worker; jobs behind it may be asked.
    Later,
}

/// A task or a job that needs a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// A task.
    Task(Ask),
    /// A job that may start now.
    Job(WorkerAsk),
}

/// Chooses devices. Equal questions in equal order have equal answers; each policy says how it breaks ties.
///
/// The scheduler calls [`Policy::granted`] right after a [`Verdict::Grant`] has become a lease, so that a policy with state
/// of its own (SMs, who was overtaken) changes it only then.
pub trait Policy {
    /// Name in options and output.
    fn name(&self) -> &'static str;

    /// Tells whether a task is placed without room for its managed memory. If not, that is memory like any other.
    fn is_managed_soft(&self) -> bool {
        false
    }

    /// Tells whether jobs that need a device to themselves start before tasks that wait, and those before all other jobs.
    /// If not, isolated jobs are jobs like others.
    fn isolated_first(&self) -> bool {
        true
    }

    /// Why no device could ever hold the job; `None` where only its tasks tell.
    fn refuses(&self, pool: &Pool, job: &WorkerAsk) -> Option<Refusal> {
        too_large(job.mem, pool.largest()).filter(|_| job.isolated)
    }

    /// Decides whether a job without a worker may start, and where. No job that [`Policy::refuses`] refuses is asked for.
    ///
    /// By default an isolated job gets the smallest device without tasks that holds it (ties: the first), any other job
    /// may use every device.
    fn start(&mut self, pool: &Pool, job: &WorkerAsk) -> Start {
        if job.isolated { alone(pool, job.mem) } else { Start::Anywhere }
    }

    /// An instance to make before somebody is asked for, on GPUs whose instances the policy makes; `None` where those that
    /// are there will do, or none can be made.
    fn make(&mut self, _pool: &Pool, _want: &Want) -> Option<Instance> {
        None
    }

    /// Decides where `ask` goes now. Changes nothing that a later question could notice.
    fn place(&mut self, pool: &Pool, ask: &Ask) -> Verdict;

    /// `ask` was granted `device`; `pool` counts it already.
    fn granted(&mut self, _pool: &Pool, _ask: &Ask, _device: DeviceId) {}

    /// `ask` has `device` since before its scheduler died: nobody was asked.
    fn restored(&mut self, pool: &Pool, ask: &Ask, device: DeviceId) {
        self.granted(pool, ask, device);
    }

    /// `ask` joined the queue.
    fn waits(&mut self, _ask: &Ask) {}

    /// A live or waiting task was freed.
    fn freed(&mut self, _task: TaskId) {}

    /// A job ended.
    fn ended(&mut self, _job: WorkerId) {}

    /// A device came to a pool whose devices come and go.
    fn came(&mut self, _device: DeviceId, _held: &Held) {}
}

/// The smallest device without tasks that holds `mem`; ties go to the first.
fn alone(pool: &Pool, mem: Bytes) -> Start {
    let idle = pool.iter().filter(|(_, held)| held.is_idle() && held.device().mem >= mem);
    match idle.min_by_key(|(id, held)| (held.device().mem, *id)) {
        Some((id, _)) => Start::On(id),
        None => Start::Later,
    }
}

/// Says why no device could hold `mem` even when empty, where the largest has `largest`.
#[must_use]
pub fn too_large(mem: Bytes, largest: Bytes) -> Option<Refusal> {
    (mem > largest).then_some(Refusal::TooLarge { need: mem, largest })
}

/// Chooses the answer to a task that no device takes now: to wait, or that none that it may use could hold it even when empty.
fn wait_or_refuse(pool: &Pool, ask: &Ask) -> Verdict {
    too_large(ask.need.mem(), pool.largest_for(ask)).map_or(Verdict::Wait, Verdict::Refuse)
}

/// Answers a task of a job that is bound to `device`: memory alone decides.
#[must_use]
pub fn on_bound(pool: &Pool, ask: &Ask, device: DeviceId) -> Verdict {
    match pool.get(device) {
        Some(held) if ask.need.mem() > held.device().mem => {
            Verdict::Refuse(Refusal::AboveDevice { need: ask.need.mem(), device: held.device().mem })
        }
        Some(held) if ask.need.mem() <= held.free() => Verdict::Grant(device),
        _ => Verdict::Wait,
    }
}

/// Every policy by name, in the order that lists print them in.
pub const NAMES: [&str; 3] = ["tessera", "alg3", "alg2"];

/// Makes a policy by its name; `None` for a name not in [`NAMES`].
#[must_use]
pub fn by_name(name: &str) -> Option<Box<dyn Policy>> {
    Some(match name {
        "tessera" => Box::new(Tessera::default()),
        "alg3" => Box::new(Alg3),
        "alg2" => Box::new(Alg2::default()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_reads_back_from_its_name() {
        assert!(NAMES.iter().all(|name| by_name(name).unwrap().name() == *name));
        assert!(by_name("case").is_none());
    }
}
