//! `SchedGPU`: one device, memory only.

use crate::device::DeviceId;
use crate::policy::{Policy, Refusal, Verdict, on_bound};
use crate::pool::Pool;
use crate::task::Ask;

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
        let first = DeviceId(0);
        match pool.get(first) {
            None => Verdict::Refuse(Refusal::TooLarge { need: ask.need.mem(), largest: pool.largest() }),
            Some(held) if ask.bound.is_none() && !held.admits(ask.job) => Verdict::Wait,
            Some(_) => on_bound(pool, ask, ask.bound.unwrap_or(first)),
        }
    }
}
