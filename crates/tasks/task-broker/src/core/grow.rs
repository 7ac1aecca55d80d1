//! A worker that holds asks for more.

use task_sched::{Answer, DeviceId, Event, TaskId, WorkerId};
use task_wire::{Code, Refused, Reply, Text};

use super::begin::{Placed, refusal};
use super::{Core, Grower, Task};

impl Core {
    /// Tries a task of a worker that holds: at once, or first in its group, or not at all.
    pub(super) fn grow(&mut self, id: TaskId, usable: &[DeviceId]) -> Placed {
        let Some(task) = self.tasks.get(id).copied() else { return Placed::Waits };
        let worker = task.worker;
        match self.ask(id, usable) {
            Answer::Granted(device) => return Placed::On(device),
            Answer::Refused(why) => return refusal(&why),
            Answer::Waits | Answer::Crashed => {}
        }
        // It waits, but not in the queue's order.
        self.unqueue(id);
        let able: Vec<DeviceId> = usable.iter().copied().filter(|d| self.could_wait(id, *d)).collect();
        if able.is_empty() {
            return self.never(id, usable);
        }
        let Some(group) = self.workers.get(&worker).and_then(|w| w.group.clone()) else {
            return Placed::Waits;
        };
        let grower = self.growers.get(&group).copied();
        let kept = match grower {
            Some(other) if other.worker != worker => return busy(self.tasks.hard(&task)),
            Some(own) if able.contains(&own.device) => own.device,
            Some(_) => return busy(self.tasks.hard(&task)),
            None => self.most_free(&able),
        };
        self.growers.insert(group, Grower { worker, device: kept });
        let guests_pass = !self.tasks.holds(worker);
        self.sched.keep(worker, kept, guests_pass);
        match self.ask(id, &[kept]) {
            Answer::Granted(device) => Placed::On(device),
            _ => Placed::Waits,
        }
    }

    /// Tells whether a worker without tasks has a context that others may wait for, and asks for more than is certain anywhere.
    pub(super) fn waits_for_exits(&self, id: TaskId, usable: &[DeviceId]) -> bool {
        let Some(task) = self.tasks.get(id) else { return false };
        let is_present = self.workers.get(&task.worker).is_some_and(|worker| !worker.present.is_empty());
        is_present && !usable.iter().any(|device| self.is_certain(id, *device))
    }

    /// Tells whether the task fits the device if every other worker frees its tasks there.
    fn is_certain(&self, id: TaskId, device: DeviceId) -> bool {
        let certain = self.sched.pool().get(device).map_or(0, |held| held.certain().0);
        self.is_below(self.beside_own(id, device), certain)
    }

    /// Tells whether a worker that is on some device may wait for this one. One that holds may wait only for tasks: a
    /// worker whose context it waited for could wait for its tasks.
    fn could_wait(&self, id: TaskId, device: DeviceId) -> bool {
        let Some(worker) = self.tasks.get(id).map(|task| task.worker) else { return false };
        let Some(held) = self.sched.pool().get(device) else { return false };
        let most = if self.tasks.holds(worker) { held.certain() } else { held.largest_task() };
        self.is_below(self.beside_own(id, device), most.0)
    }

    /// Memory that the task would take together with its worker's other tasks.
    fn beside_own(&self, id: TaskId, device: DeviceId) -> u64 {
        let Some(task) = self.tasks.get(id) else { return u64::MAX };
        self.tasks.held(task.worker, device).saturating_add(self.tasks.hard(task))
    }

    fn is_below(&self, sum: u64, most: u64) -> bool {
        if self.is_strict { sum < most } else { sum <= most }
    }

    fn most_free(&self, able: &[DeviceId]) -> DeviceId {
        let free = |id: &&DeviceId| self.sched.pool().get(**id).map(task_sched::Held::free);
        // Of equals, the first.
        able.iter().rev().max_by_key(free).copied().unwrap_or(DeviceId(0))
    }

    fn never(&self, id: TaskId, usable: &[DeviceId]) -> Placed {
        let task = self.tasks.get(id);
        let need = task.map_or(0, |task| self.tasks.hard(task));
        let left = |device: &DeviceId| {
            let certain = self.sched.pool().get(*device)?.certain().0;
            Some(certain.saturating_sub(self.tasks.held(task?.worker, *device)))
        };
        let most = usable.iter().filter_map(left).max().unwrap_or(0);
        let why = format!(
            "the task needs {need} bytes; beside what its process holds and the contexts of other processes, the largest \
             device is certain to have {most} bytes at some time"
        );
        Placed::Refused { code: Code::Growth, need, most, why }
    }

    /// After a grant to a worker, its waiting tasks are those of one that holds, and may use its group alone.
    pub(super) fn reconsider(&mut self, worker: WorkerId, t: f64) {
        self.stops_growing(worker);
        let mut last = None;
        while let Some(id) = self.tasks.next_waiting(worker, last) {
            last = Some(id);
            self.unqueue(id);
            match self.place(id) {
                Placed::On(device) => {
                    self.record_grant(id, device, t);
                    // Those before it may now use its group alone.
                    self.stops_growing(worker);
                    last = None;
                }
                Placed::Waits => {}
                Placed::Refused { code, need, most, why } => self.refuse(id, (code, need, most, &why), t),
            }
        }
        self.stops_growing(worker);
    }

    /// Refuses a task that waited and is in nobody's queue.
    pub(super) fn refuse(&mut self, id: TaskId, (code, need, most, why): (Code, u64, u64, &str), t: f64) {
        let Some(Task { worker, record }) = self.tasks.get(id).copied() else { return };
        // The log has no refusal of a task that waited: it is withdrawn.
        self.log(&Event::Free { t, task: id }, Some(worker), None);
        self.forget_task(id);
        let refused = Refused { nonce: record.nonce, code, need, most, why: Text::cut(why) };
        self.tell(worker, Reply::Refused(refused));
    }

    /// Takes a waiting task out of the scheduler's queue.
    pub(super) fn unqueue(&mut self, id: TaskId) {
        // One that is not there needs nothing.
        let _ = self.sched.free(id);
    }

    /// Opens the device that was kept for a worker without waiting tasks.
    pub(super) fn stops_growing(&mut self, worker: WorkerId) {
        let waits = self.tasks.next_waiting(worker, None).is_some();
        if !waits && self.growers.values().any(|grower| grower.worker == worker) {
            self.growers.retain(|_, grower| grower.worker != worker);
            self.sched.unkeep(worker);
        }
    }
}

fn busy(need: u64) -> Placed {
    let why = "the process has memory or a context on the device and asks for more than is free; another such process \
               waits already, and two could wait for each other for ever"
        .to_owned();
    Placed::Refused { code: Code::Growth, need, most: 0, why }
}
