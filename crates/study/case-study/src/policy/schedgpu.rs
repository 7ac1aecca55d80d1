//! `SchedGPU`: one device, memory only.

use task_sched::Ask;
use task_sched::DeviceId;
use task_sched::Pool;
use task_sched::policy::{Policy, Verdict, on_bound};

/// Every task goes to device 0 as soon as its memory is free there.
///
/// Source: CASE sections 2 and 5.1, after Reaño et al., IEEE TPDS 29(5), 2018.
#[derive(Clone, Copy, Debug, Default)]
pub struct SchedGpu;

impl Policy for SchedGpu {
    fn name(&self) -> &'static str {
        "schedgpu"
    }

    fn place(&mut self, pool: &Pool, ask: &Ask) -> Verdict {
        let device = ask.bound.unwrap_or(DeviceId(0));
        let is_open = pool.get(device).is_some_and(|held| held.admits(ask.job));
        match on_bound(pool, ask, device) {
            Verdict::Grant(_) if !is_open => Verdict::Wait,
            verdict => verdict,
        }
    }
}
