//! CASE-MIG: isolated jobs first, then the others while workers remain.

use crate::policy::alg3::fewest_warps;
use crate::policy::{Policy, Start, Verdict, not_below, on_bound};
use crate::pool::Pool;
use crate::task::{Ask, JobAsk};
use crate::units::Bytes;

/// Each job has a class: the size of the smallest device with strictly more memory than the job needs. It uses only
/// devices of that size. An isolated job takes the first one without tasks and without an isolated job; other jobs share
/// them as in Algorithm 3.
///
/// Source: CASE-MIG, Algorithms 1 and 2. As printed, Algorithm 1 starts an isolated job on every matching GPU, also beside
/// running tasks, and drops every second other job; this is what the text means.
#[derive(Clone, Copy, Debug, Default)]
pub struct CaseMig;

/// The memory of the devices that a job of `mem` may use.
fn class(pool: &Pool, mem: Bytes) -> Option<Bytes> {
    pool.devices().iter().map(|held| held.device().mem).filter(|size| mem < *size).min()
}

impl Policy for CaseMig {
    fn name(&self) -> &'static str {
        "case-mig"
    }

    fn start(&mut self, pool: &Pool, job: &JobAsk) -> Start {
        if let Some(refusal) = not_below(pool, job.mem) {
            return Start::Refuse(refusal);
        }
        if !job.isolated {
            return Start::Anywhere;
        }
        let class = class(pool, job.mem);
        let idle = pool.iter().find(|(_, held)| held.is_idle() && Some(held.device().mem) == class);
        idle.map_or(Start::Later, |(id, _)| Start::On(id))
    }

    fn place(&mut self, pool: &Pool, ask: &Ask) -> Verdict {
        if let Some(device) = ask.bound {
            return on_bound(pool, ask, device);
        }
        let class = class(pool, ask.job_mem.max(ask.need.mem()));
        fewest_warps(pool, ask, |size| Some(size) == class)
    }
}
