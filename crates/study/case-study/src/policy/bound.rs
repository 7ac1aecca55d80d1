//! The baselines that bind a whole process to a device.

use std::collections::BTreeMap;

use task_sched::Bytes;
use task_sched::DeviceId;
use task_sched::Pool;
use task_sched::policy::{Policy, Refusal, Start, Verdict, on_bound, too_large};
use task_sched::{Ask, WorkerAsk, WorkerId};

/// Who owns which device for the life of a process.
#[derive(Clone, Debug, Default)]
struct Owners(BTreeMap<DeviceId, WorkerId>);

impl Owners {
    /// Gives `job` the first device without an owner that `eligible` accepts.
    fn take(&mut self, pool: &Pool, job: WorkerId, eligible: impl Fn(Bytes) -> bool) -> Start {
        let mut devices = pool.iter().filter(|(_, held)| eligible(held.device().mem));
        match devices.find(|(id, _)| !self.0.contains_key(id)) {
            Some((id, _)) => {
                self.0.insert(id, job);
                Start::On(id)
            }
            None => Start::Later,
        }
    }

    fn release(&mut self, job: WorkerId) {
        self.0.retain(|_, owner| *owner != job);
    }
}

/// The answer for a job that owns its device. A task without one is a task of a job that never started: it waits.
fn on_own(pool: &Pool, ask: &Ask) -> Verdict {
    ask.bound.map_or(Verdict::Wait, |device| on_bound(pool, ask, device))
}

/// Single assignment: a process owns the first idle device that could hold it, for its whole life.
///
/// Source: CASE section 5.1.
#[derive(Clone, Debug, Default)]
pub struct Sa(Owners);

impl Policy for Sa {
    fn name(&self) -> &'static str {
        "sa"
    }

    fn isolated_first(&self) -> bool {
        false
    }

    fn refuses(&self, pool: &Pool, job: &WorkerAsk) -> Option<Refusal> {
        too_large(job.mem, pool.largest())
    }

    fn start(&mut self, pool: &Pool, job: &WorkerAsk) -> Start {
        self.0.take(pool, job.job, |size| size >= job.mem)
    }

    fn place(&mut self, pool: &Pool, ask: &Ask) -> Verdict {
        on_own(pool, ask)
    }

    fn ended(&mut self, job: WorkerId) {
        self.0.release(job);
    }
}

/// Slurm with MIG instances as GPUs: a process owns, for its whole life, an instance of the smallest size that holds its
/// largest task. A job whose size is taken does not hold up jobs of other sizes, as with Slurm's backfill scheduler.
///
/// Source: CASE-MIG sections 1 and 3.1.
#[derive(Clone, Debug, Default)]
pub struct Slurm(Owners);

impl Policy for Slurm {
    fn name(&self) -> &'static str {
        "slurm"
    }

    fn isolated_first(&self) -> bool {
        false
    }

    fn refuses(&self, pool: &Pool, job: &WorkerAsk) -> Option<Refusal> {
        too_large(job.mem, pool.largest())
    }

    fn start(&mut self, pool: &Pool, job: &WorkerAsk) -> Start {
        let sizes = pool.devices().map(|held| held.device().mem);
        let class = sizes.filter(|size| *size >= job.mem).min();
        self.0.take(pool, job.job, |size| Some(size) == class)
    }

    fn place(&mut self, pool: &Pool, ask: &Ask) -> Verdict {
        on_own(pool, ask)
    }

    fn ended(&mut self, job: WorkerId) {
        self.0.release(job);
    }
}

/// Core to GPU: processes are dealt to the devices in turn, to each up to its share of the workers, and nobody looks at
/// memory. A task that does not fit ends its program; the device itself is never over its memory, because the driver
/// refuses.
///
/// A process goes to the next device in turn, of those with the fewest processes. The scheduler limits the workers.
///
/// Source: CASE section 5.1: CG visits the devices round robin until each has its ratio of processes.
#[derive(Clone, Debug, Default)]
pub struct Cg {
    /// Device of each process.
    processes: BTreeMap<WorkerId, DeviceId>,
    /// The device behind the one that got the last process.
    next: usize,
}

impl Policy for Cg {
    fn name(&self) -> &'static str {
        "cg"
    }

    fn isolated_first(&self) -> bool {
        false
    }

    fn refuses(&self, _pool: &Pool, _job: &WorkerAsk) -> Option<Refusal> {
        None
    }

    fn start(&mut self, pool: &Pool, job: &WorkerAsk) -> Start {
        let n = pool.numbers();
        let here = |device: usize| self.processes.values().filter(|id| id.0 == device).count();
        let in_turn = (0..n).map(|i| (self.next + i) % n);
        let Some(device) = in_turn.min_by_key(|device| here(*device)) else { return Start::Later };
        self.processes.insert(job.job, DeviceId(device));
        self.next = device + 1;
        Start::On(DeviceId(device))
    }

    fn place(&mut self, pool: &Pool, ask: &Ask) -> Verdict {
        let device = ask.bound.unwrap_or(DeviceId(0));
        match pool.get(device) {
            Some(held) if ask.need.mem() <= held.free() => Verdict::Grant(device),
            _ => Verdict::Crash,
        }
    }

    fn ended(&mut self, job: WorkerId) {
        self.processes.remove(&job);
    }
}
