//! Tasks and workers end.

use task_sched::{Event, WorkerId};
use task_wire::{Code, Refused, Reply, Text};

use super::{Core, Effect, Image, Key, Process, Stage};

impl Core {
    /// A worker frees a task, or no longer wants one that waits. One that is quarantined is not its own any more: only NVML
    /// shows that its memory is free.
    pub fn free(&mut self, image: Image, nonce: u64, t: f64) -> Vec<Effect> {
        let Some(worker) = self.images.get(&image).copied() else { return Vec::new() };
        let task = self.tasks.named(worker, nonce);
        match task.and_then(|id| Some((id, self.stage(id)?))) {
            Some((id, stage @ (Stage::Waiting | Stage::Running(_)))) => {
                self.log(&Event::Free { t, task: id }, Some(worker), stage.device());
                // The scheduler knows every task of ours.
                let _ = self.sched.free(id);
                self.forget_task(id);
                self.tell(worker, Reply::Freed { nonce });
                self.reconsider(worker, t);
                self.settle(t);
                self.forget_if_unused(worker, t);
            }
            Some((_, Stage::Quarantined(_))) | None => self.tell(worker, unknown(nonce)),
        }
        self.take()
    }

    /// A worker no longer wants what it waits for: its connection is gone.
    pub fn withdraw(&mut self, image: Image, nonce: u64, t: f64) -> Vec<Effect> {
        let worker = self.images.get(&image).copied();
        let task = worker.and_then(|worker| self.tasks.named(worker, nonce));
        match task.and_then(|id| self.stage(id)) {
            Some(Stage::Waiting) => {
                let mut effects = self.free(image, nonce, t);
                effects.retain(
                    |effect| !matches!(effect, Effect::Reply(_, Reply::Freed { nonce: n }) if *n == nonce),
                );
                effects
            }
            _ => Vec::new(),
        }
    }

    /// A process ended.
    pub fn process_ended(&mut self, process: Process, t: f64) -> Vec<Effect> {
        let workers: Vec<WorkerId> = self.images_of(process).collect();
        workers.into_iter().for_each(|worker| self.worker_ended(worker, t));
        self.settle(t);
        self.take()
    }

    /// A worker ended: its waiting tasks are gone, its running ones quarantined.
    pub(super) fn worker_ended(&mut self, worker: WorkerId, t: f64) {
        match self.workers.get_mut(&worker) {
            Some(state) if state.is_alive => state.is_alive = false,
            _ => return,
        }
        for id in self.tasks.of(worker) {
            match self.stage(id) {
                Some(Stage::Waiting) => {
                    self.log(&Event::Free { t, task: id }, Some(worker), None);
                    // The scheduler knows every task of ours.
                    let _ = self.sched.free(id);
                    self.forget_task(id);
                }
                Some(Stage::Running(device)) => self.set_stage(id, Stage::Quarantined(device), t),
                Some(Stage::Quarantined(_)) | None => {}
            }
        }
        self.stops_growing(worker);
        self.bury_if_gone(worker, t);
    }

    /// Forgets an ended worker that is on no device any more, and gives back what it held.
    pub(super) fn bury_if_gone(&mut self, worker: WorkerId, t: f64) {
        let is_gone = self.workers.get(&worker).is_some_and(|w| !w.is_alive && w.present.is_empty());
        if !is_gone {
            return;
        }
        for id in self.tasks.of(worker) {
            let device = self.stage(id).and_then(Stage::device);
            self.log(&Event::Free { t, task: id }, Some(worker), device);
            // The scheduler knows every task of ours.
            let _ = self.sched.free(id);
            self.forget_task(id);
        }
        self.sched.leave(worker);
        self.forget_worker(worker, t);
    }

    fn forget_worker(&mut self, worker: WorkerId, t: f64) {
        self.log(&Event::End { t, job: worker }, Some(worker), None);
        if let Some(state) = self.workers.remove(&worker) {
            self.images.remove(&state.image);
        }
    }

    /// Forgets a live worker that was never granted anything and waits for nothing.
    pub(super) fn forget_if_unused(&mut self, worker: WorkerId, t: f64) {
        let is_new = self.workers.get(&worker).is_some_and(|w| w.is_alive && w.present.is_empty());
        if is_new && !self.tasks.is_any_of(worker) {
            self.forget_worker(worker, t);
        }
    }

    /// Removes what the table says of a worker on a device.
    pub(super) fn leaves_device(&mut self, worker: WorkerId, device: task_sched::DeviceId) {
        if self.workers.get_mut(&worker).is_some_and(|state| state.present.remove(&device)) {
            self.effects.push(Effect::Erase(Key::Context(worker, device)));
        }
    }
}

/// The answer to a free that nothing is known of.
pub(crate) fn unknown(nonce: u64) -> Reply {
    let why = Text::cut("the task neither lives nor waits");
    Reply::Refused(Refused { nonce, code: Code::Unknown, need: 0, most: 0, why })
}
