//! The state again, from the table of a broker that died.

use task_sched::{Bytes, Event, TaskId, WorkerId};

use super::begin::Placed;
use super::{Core, Effect, Key, Of, Record, Stage, Task};

impl Core {
    /// Takes over what the table says. The jobs were added before. Records of jobs or devices that are not there are erased.
    /// Processes that ended meanwhile are the caller's to report next. The log begins anew with what lives: the broker before
    /// may have died between a change and its line.
    ///
    /// No device grants anything before the first look at it: the driver may not have freed yet what a process held that the broker before
    /// saw end, and only that one knew how much.
    pub fn restore(&mut self, records: &[Record], t: f64) -> Vec<Effect> {
        let mut records = records.to_vec();
        // Others may have had less of a device than when it was opened, so that leases had more of it.
        self.devices.iter().for_each(|(id, dev)| self.sched.set_mem(*id, dev.mem(0)));
        self.log_devices(t, true);
        // Contexts first: they bind their workers, and leases then take nothing for a context. Tasks in the order in which
        // they began.
        records.sort_by_key(|record| match record.key() {
            Key::Context(worker, device) => (0, worker.0, device.0),
            Key::Task(task) => (1, task.0, 0),
        });
        let mut waiting = Vec::new();
        for record in &records {
            if !self.is_usable(record) {
                self.effects.push(Effect::Erase(record.key()));
                continue;
            }
            self.next_worker = self.next_worker.max(record.worker.0 + 1);
            if !self.workers.contains_key(&record.worker) {
                self.insert_worker(record.worker, record.job, record.image);
                self.log_worker(record.worker, t);
            }
            match record.of {
                Of::Context(device, context) => self.restore_context(record.worker, device, context),
                Of::Task(task) => {
                    self.next_task = self.next_task.max(task.task.0 + 1);
                    self.tasks.insert(task.task, Task { worker: record.worker, record: task });
                    self.log_begin(task.task, t);
                    match task.stage.device() {
                        Some(device) => self.restore_lease(task.task, record.worker, device, t),
                        None => waiting.push(task.task),
                    }
                }
            }
        }
        self.devices.iter().for_each(|(id, dev)| self.sched.set_mem(*id, dev.mem(dev.baseline)));
        self.log_devices(t, false);
        self.ended_before(t);
        let all: Vec<task_sched::DeviceId> = self.devices.keys().copied().collect();
        all.into_iter().for_each(|id| self.lost(id, "NVML was not asked about it since the broker started"));
        waiting.into_iter().for_each(|id| self.restore_waiting(id, t));
        self.settle(t);
        self.take()
    }

    /// Tells whether its device is in the pool. Its job may be gone: what it holds stays quarantined.
    fn is_usable(&self, record: &Record) -> bool {
        let device = match record.of {
            Of::Context(device, _) => Some(device),
            Of::Task(task) => task.stage.device(),
        };
        device.map_or(self.jobs.contains_key(&record.job), |id| self.devices.contains_key(&id))
    }

    fn restore_context(&mut self, worker: WorkerId, device: task_sched::DeviceId, context: Bytes) {
        self.sched.enter(worker, device, context);
        let group = self.devices.get(&device).map(|dev| dev.group.clone());
        if let Some(state) = self.workers.get_mut(&worker) {
            state.group = group;
            state.present.insert(device);
        }
    }

    fn restore_lease(&mut self, id: TaskId, worker: WorkerId, device: task_sched::DeviceId, t: f64) {
        let is_held = self.ask_of(id, &[device]).is_some_and(|ask| self.sched.restore(&ask, device));
        if !is_held {
            // The device became smaller: NVML's account of the process withholds its memory.
            self.log(&Event::Free { t, task: id }, Some(worker), None);
            self.forget_task(id);
            return;
        }
        self.log(&Event::Grant { t, task: id, dev: device }, Some(worker), Some(device));
        let single = self.tasks.get(id).is_some_and(|task| task.record.single);
        if let Some(state) = self.workers.get_mut(&worker).filter(|_| single) {
            state.single = Some(device);
        }
    }

    /// A worker with a quarantined task had ended, and so had one whose job is gone.
    fn ended_before(&mut self, t: f64) {
        let ended = |id: &WorkerId| {
            let is_quarantined = |task: &TaskId| matches!(self.stage(*task), Some(Stage::Quarantined(_)));
            self.tasks.of(*id).iter().any(is_quarantined)
        };
        let without_job =
            |id: &WorkerId| self.workers.get(id).is_some_and(|w| !self.jobs.contains_key(&w.job));
        let workers: Vec<WorkerId> =
            self.workers.keys().copied().filter(|id| ended(id) || without_job(id)).collect();
        for worker in workers {
            if let Some(state) = self.workers.get_mut(&worker) {
                state.is_alive = false;
            }
            self.bury_if_gone(worker, t);
        }
    }

    fn restore_waiting(&mut self, id: TaskId, t: f64) {
        if !self.is_waiting(id) {
            return;
        }
        // A grant to its worker may have queued it already.
        self.unqueue(id);
        match self.place(id) {
            Placed::On(device) => self.granted(id, device, t),
            Placed::Waits => {}
            Placed::Refused { code, need, most, why } => self.refuse(id, (code, need, most, &why), t),
        }
    }
}
