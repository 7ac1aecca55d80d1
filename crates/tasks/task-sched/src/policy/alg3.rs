//! CASE Algorithm 3, which CASE-MIG calls Algorithm 2: memory is hard, compute is soft.

use crate::device::DeviceId;
use crate::policy::{Policy, Refusal, Verdict, on_bound};
use crate::pool::Pool;
use crate::task::Ask;
use crate::units::{Bytes, Warps};

/// Chooses, among devices with strictly more free memory than the task needs and without an isolated job, the one with the fewest
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

/// Applies Algorithm 3 to the devices whose memory `eligible` accepts.
pub fn fewest_warps(pool: &Pool, ask: &Ask, eligible: impl Fn(Bytes) -> bool) -> Verdict {
    let mut best: Option<(Warps, DeviceId)> = None;
    for (id, held) in pool.iter() {
        let has_room = held.room(id, ask).is_some_and(|room| ask.need.mem() < room);
        let fits = has_room && eligible(held.device().mem);
        if fits && best.is_none_or(|(fewest, _)| held.warps() < fewest) {
            best = Some((held.warps(), id));
        }
    }
    match best {
        Some((_, id)) => Verdict::Grant(id),
        None => not_below(pool, ask).map_or(Verdict::Wait, Verdict::Refuse),
    }
}

/// Why no device that the task may use has strictly more than it needs even when empty.
fn not_below(pool: &Pool, ask: &Ask) -> Option<Refusal> {
    let (need, largest) = (ask.need.mem(), pool.largest_for(ask));
    (need >= largest).then_some(Refusal::NotBelow { need, largest })
}
