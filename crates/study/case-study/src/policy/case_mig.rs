//! CASE-MIG: isolated jobs first, then the others while workers remain.

use task_sched::Bytes;
use task_sched::Pool;
use task_sched::policy::fewest_warps;
use task_sched::policy::{Policy, Refusal, Start, Verdict, on_bound, too_large};
use task_sched::{Ask, WorkerAsk};

/// Each job has a class: the size of the smallest device that holds its memory. It uses only devices of that size. An
/// isolated job takes the first one without tasks and without an isolated job. Other jobs share them as in Algorithm 3,
/// which leaves some memory free: a task that needs all of a device belongs to the next class.
///
/// Source: CASE-MIG, Algorithms 1 and 2. As printed, Algorithm 1 starts an isolated job on every matching GPU, also beside
/// running tasks, and drops every second other job; this is what the text means.
#[derive(Clone, Copy, Debug, Default)]
pub struct CaseMig;

/// The size of the smallest device that `holds` accepts.
fn class(pool: &Pool, holds: impl Fn(Bytes) -> bool) -> Option<Bytes> {
    pool.devices().map(|held| held.device().mem).filter(|size| holds(*size)).min()
}

impl Policy for CaseMig {
    fn name(&self) -> &'static str {
        "case-mig"
    }

    fn refuses(&self, pool: &Pool, job: &WorkerAsk) -> Option<Refusal> {
        too_large(job.mem, pool.largest())
    }

    fn start(&mut self, pool: &Pool, job: &WorkerAsk) -> Start {
        if !job.isolated {
            return Start::Anywhere;
        }
        let class = class(pool, |size| job.mem <= size);
        let idle = pool.iter().find(|(_, held)| held.is_idle() && Some(held.device().mem) == class);
        idle.map_or(Start::Later, |(id, _)| Start::On(id))
    }

    fn place(&mut self, pool: &Pool, ask: &Ask) -> Verdict {
        if let Some(device) = ask.bound {
            return on_bound(pool, ask, device);
        }
        let class = class(pool, |size| ask.job_mem <= size && ask.need.mem() < size);
        fewest_warps(pool, ask, |size| Some(size) == class)
    }
}
