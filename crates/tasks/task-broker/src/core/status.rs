//! The state, for people.

use task_control::status::{DeviceStatus, JobStatus, Status, TaskState, TaskStatus};
use task_sched::{DeviceId, Held};

use super::{Core, Dev, Stage, Task};

impl Core {
    /// Describes who holds and waits for what. Process ids of the broker are the caller's to add.
    #[must_use]
    pub fn status(&self, t: f64) -> Status {
        let devices = self
            .sched
            .pool()
            .iter()
            .filter_map(|(id, held)| Some(self.device_status(id, self.devices.get(&id)?, held)));
        let jobs = self.jobs.iter().map(|(job, state)| JobStatus {
            job: *job,
            uid: state.uid,
            seats: state.seats,
            tasks: self
                .tasks
                .values()
                .filter(|task| self.job_of(task) == Some(*job))
                .map(|task| self.task_status(task, t))
                .collect(),
        });
        Status {
            parent: 0,
            child: 0,
            policy: self.sched.policy().name().to_owned(),
            devices: devices.collect(),
            jobs: jobs.collect(),
        }
    }

    fn job_of(&self, task: &Task) -> Option<u32> {
        self.workers.get(&task.worker).map(|worker| worker.job)
    }

    fn device_status(&self, id: DeviceId, dev: &Dev, held: &Held) -> DeviceStatus {
        let on = |stage: Stage| self.tasks.values().filter(move |task| task.record.stage == stage);
        let mib = |stage| on(stage).map(|task| up(self.tasks.hard(task))).sum();
        DeviceStatus {
            uuid: dev.uuid.clone(),
            group: dev.group.clone(),
            mem_mib: held.device().mem.0 >> 20,
            leased_mib: mib(Stage::Running(id)),
            overhead_mib: up(held.contexts().0) + up(dev.withheld),
            quarantined_mib: mib(Stage::Quarantined(id)),
            warps: u64::try_from(held.warps().0).unwrap_or(u64::MAX),
            workers: u32::try_from(held.guests()).unwrap_or(u32::MAX),
            held: dev.held.clone().or_else(|| dev.lost.clone()).or_else(|| {
                dev.is_without_mps.then(|| {
                    "its MPS daemon or server ended: it waits until its processes are gone".to_owned()
                })
            }),
        }
    }

    fn task_status(&self, task: &Task, t: f64) -> TaskStatus {
        let record = &task.record;
        let worker = self.workers.get(&task.worker);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole seconds, at least 0"
        )]
        let since_s = (t - record.since).max(0.0) as u64;
        let device = record.stage.device().and_then(|id| self.devices.get(&id));
        TaskStatus {
            task: record.task.0,
            pid: worker.map_or(0, |worker| worker.image.process.pid),
            device: device.map(|dev| dev.uuid.clone()),
            mem_mib: up(self.tasks.hard(task)),
            warps: record.need.blocks().saturating_mul(record.need.threads().div_ceil(32).into()),
            state: match record.stage {
                Stage::Waiting => TaskState::Waiting,
                Stage::Running(_) => TaskState::Running,
                Stage::Quarantined(_) => TaskState::Quarantined,
            },
            since_s,
        }
    }
}

/// Bytes as MiB, rounded up.
fn up(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}
