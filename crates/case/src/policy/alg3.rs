//! CASE Algorithm 3, which CASE-MIG calls Algorithm 2: memory is hard, compute is soft.

use crate::device::DeviceId;
use crate::policy::{Policy, Verdict, not_below, on_bound};
use crate::pool::Pool;
use crate::task::Ask;
use crate::units::{Bytes, Warps};

/// Of the devices with strictly more free memory than the task needs and without an isolated job, the one with the fewest
/// warps in use. Ties go to the first device.
///
/// Source: CASE, Algorithm 3; CASE-MIG, Algorithm 2.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alg3;

impl Policy for Alg3 {
    fn name(&self) -> &'static str {
        "alg3"
    }

    fn place(&mut self, pool: &Pool, ask: &Ask) -> Verdict {
        if let Some(device) = ask.bound {
            return on_bound(pool, ask, device);
        }
        fewest_warps(pool, ask, |_| true)
    }
}

/// Algorithm 3 on the devices whose memory `eligible` accepts.
pub(super) fn fewest_warps(pool: &Pool, ask: &Ask, eligible: impl Fn(Bytes) -> bool) -> Verdict {
    let mut best: Option<(Warps, DeviceId)> = None;
    for (id, held) in pool.iter() {
        let fits = ask.need.mem() < held.free() && held.admits(ask.job) && eligible(held.device().mem);
        if fits && best.is_none_or(|(fewest, _)| held.warps() < fewest) {
            best = Some((held.warps(), id));
        }
    }
    match best {
        Some((_, id)) => Verdict::Grant(id),
        None => not_below(pool, ask.need.mem()).map_or(Verdict::Wait, Verdict::Refuse),
    }
}
