//! Ours, the default: Algorithm 3's choice by load relative to size, and nobody starves.

use std::cmp::Reverse;

use crate::device::DeviceId;
use crate::policy::{Policy, Verdict, on_bound, too_large};
use crate::pool::{Held, Pool};
use crate::task::{Ask, TaskId};
use crate::units::Bytes;

/// How often a waiting task is overtaken before a device is kept for it.
pub const OVERTAKEN_AT_MOST: u32 = 16;

/// A task in the queue.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    task: TaskId,
    mem: Bytes,
    overtaken: u32,
    kept: Option<DeviceId>,
}

/// Of the devices whose free memory holds the task, the one with the fewest warps in use per warp that it holds at a time.
/// Ties go to the first device.
///
/// A waiting task is *overtaken* when a task that began later is granted a device whose memory could hold it. After
/// [`OVERTAKEN_AT_MOST`] times the policy keeps one device for it: the one with the most free memory then, if possible
/// without an isolated job (ties: the first). No task that began later goes there until the waiting one is granted, anywhere. Isolated jobs neither overtake
/// nor are overtaken: they never wait for tasks of their own device.
///
/// Differs from Algorithm 3: memory may equal what is free, so that a task may fill a device; devices of different size are
/// compared by share; a large task cannot wait for ever behind a stream of small ones.
#[derive(Clone, Debug, Default)]
pub struct Tessera {
    /// In the order in which they began.
    waiting: Vec<Waiter>,
}

/// Whether `a` has a smaller share of its warps in use than `b`.
fn is_less_loaded(a: &Held, b: &Held) -> bool {
    a.warps().0.saturating_mul(b.device().warps().0) < b.warps().0.saturating_mul(a.device().warps().0)
}

impl Tessera {
    /// Waiting tasks that began before `task`.
    fn before(&mut self, task: TaskId) -> &mut [Waiter] {
        let end = self.waiting.iter().position(|w| w.task == task).unwrap_or(self.waiting.len());
        &mut self.waiting[..end]
    }

    /// Whether some task that began before `task` has `device` kept for it.
    fn is_kept(&mut self, device: DeviceId, task: TaskId) -> bool {
        self.before(task).iter().any(|w| w.kept == Some(device))
    }
}

/// The device to keep for a task of `mem`.
fn to_keep(pool: &Pool, mem: Bytes) -> Option<DeviceId> {
    let able = pool.iter().filter(|(_, held)| held.device().mem >= mem);
    // An isolated job may hold its device for long.
    let soonest = able.min_by_key(|(id, held)| (held.isolated().is_some(), Reverse(held.free()), *id));
    soonest.map(|(id, _)| id)
}

impl Policy for Tessera {
    fn name(&self) -> &'static str {
        "tessera"
    }

    fn place(&mut self, pool: &Pool, ask: &Ask) -> Verdict {
        if let Some(device) = ask.bound {
            return on_bound(pool, ask, device);
        }
        let mut best: Option<(DeviceId, &Held)> = None;
        for (id, held) in pool.iter() {
            let fits = ask.need.mem() <= held.free() && held.admits(ask.job);
            if fits && best.is_none_or(|(_, b)| is_less_loaded(held, b)) && !self.is_kept(id, ask.task) {
                best = Some((id, held));
            }
        }
        match best {
            Some((id, _)) => Verdict::Grant(id),
            None => too_large(pool, ask.need.mem()).map_or(Verdict::Wait, Verdict::Refuse),
        }
    }

    fn granted(&mut self, pool: &Pool, ask: &Ask, device: DeviceId) {
        let size = pool.get(device).map_or(Bytes(0), |held| held.device().mem);
        if !ask.isolated {
            for waiter in self.before(ask.task).iter_mut().filter(|w| w.mem <= size) {
                waiter.overtaken += 1;
                if waiter.overtaken >= OVERTAKEN_AT_MOST && waiter.kept.is_none() {
                    waiter.kept = to_keep(pool, waiter.mem);
                }
            }
        }
        self.freed(ask.task);
    }

    fn waits(&mut self, ask: &Ask) {
        if ask.bound.is_none() {
            let waiter = Waiter { task: ask.task, mem: ask.need.mem(), overtaken: 0, kept: None };
            self.waiting.push(waiter);
        }
    }

    fn freed(&mut self, task: TaskId) {
        self.waiting.retain(|w| w.task != task);
    }
}
