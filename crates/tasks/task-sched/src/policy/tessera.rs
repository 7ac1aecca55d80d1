//! Ours, the default: Algorithm 3's choice by load relative to size, instances made on demand, and nobody starves.

use std::cmp::Reverse;

use crate::device::DeviceId;
use crate::layout::{Gpus, Instance};
use crate::policy::{Policy, Verdict, Want, on_bound, wait_or_refuse};
use crate::pool::{Held, Pool};
use crate::task::{Among, Ask, TaskId, WorkerId};
use crate::units::Bytes;
use geometry::load::{Load, fits};

/// Number of times that a waiting task is overtaken before a device is kept for it.
pub const OVERTAKEN_AT_MOST: u32 = 16;

/// Device or place that is kept for a task.
#[derive(Clone, Copy, Debug)]
enum Kept {
    Device(DeviceId),
    /// The units of an instance that may have to be made.
    Place(Instance),
}

/// A task in the queue.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    task: TaskId,
    job: WorkerId,
    mem: Bytes,
    among: Among,
    overtaken: u32,
    kept: Option<Kept>,
}

/// Chooses, among devices with enough free memory for the task, the one with the fewest warps in use per warp that it holds at
/// a time. Ties go to the first device.
///
/// Managed memory is soft: devices with room for it too come first, then those where the least of it finds none. No task
/// waits for it or is refused for it, because the driver keeps it on the host while there is no room.
///
/// A waiting task is *overtaken* when a task that began later is granted a device whose memory could hold it. After
/// [`OVERTAKEN_AT_MOST`] times the policy keeps one device for it: the one with the most free memory then, if possible
/// without an isolated job (ties: the first). No task that began later goes there until the waiting one is granted,
/// anywhere. Where jobs have contexts that stay, and the waiting one may
/// need some to leave, those that are there may go on. Isolated jobs neither overtake nor are overtaken: they never wait for tasks of their own device.
///
/// Where the policy makes the instances, a task that no instance could take gets one of its own, on the fewest units that
/// hold its memory, and so does an isolated job without an idle instance of that size. Idle instances in its place go. Of the
/// possible places, the one that leaves the most others. There, every grant to a task that began later overtakes a waiting
/// one, and what is kept is a place: nobody else gets or makes an instance that touches it.
///
/// Differs from Algorithm 3: memory may equal what is free, so that a task may fill a device; devices of different size are
/// compared by share; a large task cannot wait for ever behind a stream of small ones.
#[derive(Clone, Debug, Default)]
pub struct Tessera {
    /// In the order in which they began.
    waiting: Vec<Waiter>,
}

impl Waiter {
    /// Tells whether this device is kept for the waiting task.
    fn keeps(&self, id: DeviceId, held: &Held) -> bool {
        match self.kept {
            Some(Kept::Device(kept)) => kept == id,
            Some(Kept::Place(_)) => held.instance().is_some_and(|instance| self.keeps_place(instance)),
            None => false,
        }
    }

    fn keeps_place(&self, instance: &Instance) -> bool {
        matches!(self.kept, Some(Kept::Place(kept)) if !kept.is_beside(instance))
    }
}

/// Tells whether the device is kept from `asker` for one of those that wait. If one of them waits until the device's guests
/// have left, so do those behind it: the guests must go on.
fn is_kept_from(asker: WorkerId, waiting: &[Waiter], id: DeviceId, held: &Held) -> bool {
    let mut guests_must_leave = false;
    waiting.iter().filter(|waiter| waiter.keeps(id, held)).any(|waiter| {
        guests_must_leave |= held.waits_for_guests(waiter.job, waiter.mem);
        !(guests_must_leave && held.is_guest(asker))
    })
}

impl Tessera {
    /// Waiting tasks that began before `task`.
    fn before(&self, task: TaskId) -> &[Waiter] {
        &self.waiting[..self.position(task)]
    }

    fn position(&self, task: TaskId) -> usize {
        self.waiting.iter().position(|w| w.task == task).unwrap_or(self.waiting.len())
    }

    /// The device that takes the task now, and how much managed memory finds no room there.
    fn choose(&self, pool: &Pool, ask: &Ask) -> Option<(DeviceId, u128)> {
        let before = self.before(ask.task);
        let mut best: Option<(DeviceId, (u128, Load))> = None;
        for (id, held) in pool.iter() {
            if held.room(id, ask).is_none_or(|room| !fits(ask.need.mem().0, room.0)) {
                continue;
            }
            let score = (held.overflow(&ask.need), held.load());
            let is_better = best.is_none_or(|(_, least)| score < least);
            // Whoever holds memory and grows goes before those that were overtaken: they may wait for what it holds.
            if is_better && (held.is_kept_for(ask.job) || !is_kept_from(ask.job, before, id, held)) {
                best = Some((id, score));
            }
        }
        best.map(|(id, (over, _))| (id, over))
    }

    /// An instance for a task: with room for its managed memory if there is one, else for the rest.
    fn make_for(&self, pool: &Pool, gpus: &Gpus, ask: &Ask) -> Option<Instance> {
        let before = self.before(ask.task);
        let place = |mem| best_place(pool, gpus, mem, |place| !before.iter().any(|w| w.keeps_place(place)));
        match self.choose(pool, ask) {
            Some((_, 0)) => None,
            Some(_) => place(ask.need.total()),
            None => place(ask.need.total()).or_else(|| place(ask.need.mem())),
        }
    }
}

/// The device to keep for a task of `mem` that may use the devices `among`.
fn to_keep(pool: &Pool, mem: Bytes, among: Among) -> Option<Kept> {
    if let Some(gpus) = pool.gpus() {
        let in_use = |place: &Instance| (pool.in_use(place.gpu) & place.mask()).count_ones();
        return gpus.places(mem).min_by_key(|place| (place.profile.size, in_use(place))).map(Kept::Place);
    }
    let able = pool.iter().filter(|(id, held)| held.largest_task() >= mem && among.contains(*id));
    // An isolated job may hold its device for long.
    let soonest = able.min_by_key(|(id, held)| (held.isolated().is_some(), Reverse(held.free()), *id));
    soonest.map(|(id, _)| Kept::Device(id))
}

/// Chooses, among places for an instance with `mem`, the first on the fewest units that `may` be taken and leave the most
/// other places.
fn best_place(pool: &Pool, gpus: &Gpus, mem: Bytes, may: impl Fn(&Instance) -> bool) -> Option<Instance> {
    if !pool.has_room() {
        return None;
    }
    let left = |place: &Instance| gpus.model().placements_left(pool.in_use(place.gpu) | place.mask());
    let free = gpus.places(mem).filter(|place| pool.has_place_for(place) && may(place));
    // Of equals, `min_by_key` takes the first.
    free.min_by_key(|place| (place.profile.size, Reverse(place.profile.sm), Reverse(left(place))))
}

impl Policy for Tessera {
    fn name(&self) -> &'static str {
        "tessera"
    }

    fn is_managed_soft(&self) -> bool {
        true
    }

    fn make(&mut self, pool: &Pool, want: &Want) -> Option<Instance> {
        let gpus = pool.gpus()?;
        match want {
            Want::Task(ask) if ask.bound.is_some() => None,
            Want::Task(ask) => self.make_for(pool, gpus, ask),
            Want::Job(job) if !job.isolated => None,
            Want::Job(job) => {
                let smallest = gpus.places(job.mem).next()?.profile.size;
                let is_fit = |held: &Held| {
                    let size = held.instance().map(|instance| instance.profile.size);
                    held.is_idle() && held.device().mem >= job.mem && size == Some(smallest)
                };
                if pool.devices().any(is_fit) {
                    return None;
                }
                best_place(pool, gpus, job.mem, |place| !self.waiting.iter().any(|w| w.keeps_place(place)))
            }
        }
    }

    fn place(&mut self, pool: &Pool, ask: &Ask) -> Verdict {
        if let Some(device) = ask.bound {
            return on_bound(pool, ask, device);
        }
        match self.choose(pool, ask) {
            Some((id, _)) => Verdict::Grant(id),
            None => wait_or_refuse(pool, ask),
        }
    }

    fn granted(&mut self, pool: &Pool, ask: &Ask, device: DeviceId) {
        let size = pool.get(device).map_or(Bytes(0), Held::largest_task);
        if !ask.isolated {
            let end = self.position(ask.task);
            let could_hold = |waiter: &&mut Waiter| {
                pool.gpus().is_some() || (waiter.mem <= size && waiter.among.contains(device))
            };
            for waiter in self.waiting[..end].iter_mut().filter(could_hold) {
                waiter.overtaken += 1;
                if waiter.overtaken >= OVERTAKEN_AT_MOST && waiter.kept.is_none() {
                    waiter.kept = to_keep(pool, waiter.mem, waiter.among);
                }
            }
        }
        self.freed(ask.task);
    }

    fn waits(&mut self, ask: &Ask) {
        if ask.bound.is_none() {
            let (task, mem, among) = (ask.task, ask.need.mem(), ask.among);
            let waiter = Waiter { task, job: ask.job, mem, among, overtaken: 0, kept: None };
            self.waiting.push(waiter);
        }
    }

    fn freed(&mut self, task: TaskId) {
        self.waiting.retain(|w| w.task != task);
    }
}
