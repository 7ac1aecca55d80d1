//! Jobs come, with their devices, and go.

use serde_json::json;
use task_control::Ended;
use task_sched::{Among, Bytes, DeviceId};

use super::{Core, Dev, Effect, Job, device_of};

/// Memory that NVML showed of a device when it was opened.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Opened {
    /// The device.
    pub uuid: String,
    /// Bytes free, or as many of them as can be promised.
    pub free: u64,
    /// Bytes in use.
    pub used: u64,
}

/// Why a job cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum AddError {
    /// Another job has the number.
    #[error("job {0} is here already with other devices, user or memory: end it first")]
    Other(u32),
    /// Too many devices, or none.
    #[error("job {job} names {count} devices; 1 to {} are possible on a node", Among::MOST)]
    Devices { job: u32, count: usize },
    /// NVML was not asked about it.
    #[error("device {uuid}: NVML does not show it")]
    NotShown { uuid: String },
    /// The texts do not fit the messages.
    #[error("group {group}: {what} is too long for the tasks' messages")]
    TooLong { group: String, what: &'static str },
    /// Two jobs see a device differently.
    #[error("device {uuid} is in group {ours}; job {job} has it in group {theirs}")]
    OtherGroup { uuid: String, job: u32, ours: String, theirs: String },
}

impl Core {
    /// Lists the devices of a job that the pool does not have yet: NVML must be asked about them before [`Core::add_job`].
    #[must_use]
    pub fn unopened<'a>(&self, job: &'a task_control::Job) -> Vec<&'a str> {
        let named = job.devices.iter().map(|d| d.uuid.as_str());
        named.filter(|uuid| self.device(uuid).is_none()).collect()
    }

    /// Adds a job; the same job again changes nothing. `opened` has what NVML shows of the devices that are new.
    ///
    /// # Errors
    ///
    /// As [`AddError`] says; then nothing changed.
    pub fn add_job(
        &mut self,
        job: &task_control::Job,
        opened: &[Opened],
        t: f64,
    ) -> Result<Vec<Effect>, AddError> {
        self.check(job, opened)?;
        if self.jobs.contains_key(&job.job) {
            return if self.is_same(job) { Ok(Vec::new()) } else { Err(AddError::Other(job.job)) };
        }
        let mut devices = Vec::new();
        let mut is_new = false;
        for described in &job.devices {
            let known = self.device(&described.uuid);
            is_new |= known.is_none();
            let shown = opened.iter().find(|shown| shown.uuid == described.uuid);
            devices.extend(known.or_else(|| Some(self.open(described, shown?))));
        }
        let declared = job.gpu_mem_mib.map(|mib| Bytes::from_mib(mib).0);
        self.jobs.insert(job.job, Job { uid: job.uid, seats: job.seats, declared, devices });
        if is_new {
            self.log_devices(t, false);
        }
        Ok(self.take())
    }

    fn check(&self, job: &task_control::Job, opened: &[Opened]) -> Result<(), AddError> {
        let count = job.devices.len();
        let new = self.unopened(job).len();
        if count == 0 || new + self.devices.len() > Among::MOST {
            return Err(AddError::Devices { job: job.job, count });
        }
        for device in &job.devices {
            let uuid = device.uuid.clone();
            match self.device(&uuid).and_then(|id| self.devices.get(&id)) {
                Some(dev) if dev.group != device.group => {
                    let (ours, theirs) = (dev.group.clone(), device.group.clone());
                    return Err(AddError::OtherGroup { uuid, job: job.job, ours, theirs });
                }
                None if !opened.iter().any(|shown| shown.uuid == uuid) => {
                    return Err(AddError::NotShown { uuid });
                }
                _ => {}
            }
            let too_long = |what| Err(AddError::TooLong { group: device.group.clone(), what });
            let pipe = device.mps_pipe.as_ref().map_or(0, |pipe| pipe.as_os_str().len());
            let group = job.devices.iter().filter(|d| d.group == device.group);
            let visible: usize = group.map(|d| d.uuid.len() + 1).sum();
            match () {
                () if uuid.len() > 64 => return too_long("a UUID"),
                () if pipe > 128 => return too_long("the MPS pipe directory"),
                () if visible > 704 => return too_long("the list of UUIDs"),
                () => {}
            }
        }
        Ok(())
    }

    fn is_same(&self, job: &task_control::Job) -> bool {
        let Some(known) = self.jobs.get(&job.job) else { return false };
        let uuids = known.devices.iter().filter_map(|id| Some(self.devices.get(id)?.uuid.as_str()));
        known.uid == job.uid
            && known.declared == job.gpu_mem_mib.map(|mib| Bytes::from_mib(mib).0)
            && uuids.eq(job.devices.iter().map(|d| d.uuid.as_str()))
    }

    fn open(&mut self, described: &task_control::Device, shown: &Opened) -> DeviceId {
        let id = self.sched.add(device_of(described, Bytes(shown.free)));
        self.sched.set_context(id, self.context);
        let dev = Dev {
            uuid: described.uuid.clone(),
            group: described.group.clone(),
            mps_pipe: described.mps_pipe.as_ref().map(|pipe| pipe.to_string_lossy().into_owned()),
            baseline: shown.used,
            total: shown.free.saturating_add(shown.used),
            described: Bytes::from_mib(described.memory_mib).0,
            held: None,
            lost: None,
            is_without_mps: false,
            servers: std::collections::BTreeSet::new(),
            clients: std::collections::BTreeSet::new(),
            withheld: 0,
            over: std::collections::BTreeSet::new(),
        };
        self.devices.insert(id, dev);
        id
    }

    /// A job ended: its tasks are over, whatever its processes do. What they hold stays quarantined until NVML shows them
    /// gone.
    pub fn end_job(&mut self, job: u32, t: f64) -> Vec<Effect> {
        let of_job = |(id, worker): (&_, &super::Worker)| (worker.job == job).then_some(*id);
        let workers: Vec<task_sched::WorkerId> = self.workers.iter().filter_map(of_job).collect();
        workers.into_iter().for_each(|worker| self.worker_ended(worker, t));
        if self.jobs.remove(&job).is_some() {
            self.settle(t);
            self.close_unused(t);
        }
        self.take()
    }

    /// Counts the workers that are left of a job that ended.
    #[must_use]
    pub fn left(&self, job: u32) -> Ended {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let left = self.workers.values().filter(|worker| worker.job == job).count();
        Ended { left: count(left), jobs: count(self.jobs.len()) }
    }

    /// Holds a device back for the reason given, or lets it grant again. `None` where it is unknown.
    pub fn hold(&mut self, uuid: &str, why: Option<&str>, t: f64) -> Option<Vec<Effect>> {
        let id = self.device(uuid)?;
        self.devices.get_mut(&id)?.held = why.map(str::to_owned);
        self.apply_closed(id);
        self.settle(t);
        Some(self.take())
    }

    pub(super) fn apply_closed(&mut self, id: DeviceId) {
        if let Some(dev) = self.devices.get(&id) {
            let is_closed = dev.held.is_some() || dev.lost.is_some() || dev.is_without_mps;
            self.sched.set_closed(id, is_closed);
        }
    }

    /// Takes out devices that no job names and nobody is on.
    pub(super) fn close_unused(&mut self, t: f64) {
        let is_named = |id: &DeviceId| self.jobs.values().any(|job| job.devices.contains(id));
        let unused: Vec<DeviceId> = self.devices.keys().copied().filter(|id| !is_named(id)).collect();
        let mut is_changed = false;
        for id in unused {
            if self.sched.remove(id) {
                self.devices.remove(&id);
                is_changed = true;
            }
        }
        if is_changed {
            self.log_devices(t, false);
        }
    }

    /// Begins a new section of the log: the pool has other devices, or other memory. `anew`: what lives is named again in it.
    pub(super) fn log_devices(&mut self, t: f64, anew: bool) {
        if !self.is_logged || self.devices.is_empty() {
            return;
        }
        let devices = self.sched.pool().iter().map(|(id, held)| {
            let mut line = task_sched::event_line::device(id.0, held.device());
            line["uuid"] = self.devices.get(&id).map(|dev| dev.uuid.as_str()).into();
            line
        });
        let devices: Vec<serde_json::Value> = devices.collect();
        self.effects.push(Effect::Log(json!({
            "ev": "node", "t": t, "policy": self.sched.policy().name(), "order": "arrival", "workers": null,
            "anew": anew, "devices": devices,
        })));
    }
}
