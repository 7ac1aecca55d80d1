//! The devices of a node and what they have promised.
//!
//! Only the pool makes leases, and it makes none that a device's memory cannot hold. No policy can therefore overcommit
//! memory, whatever it decides. A lease is neither copied nor cloned: giving it back consumes it.

use crate::device::{Device, DeviceId};
use crate::task::{Ask, JobId, TaskId};
use crate::units::{Bytes, Warps};

/// One device and its promises.
#[derive(Clone, Debug)]
pub struct Held {
    device: Device,
    free: Bytes,
    warps: Warps,
    tasks: usize,
    /// Live tasks by job; a job stands here once.
    jobs: Vec<(JobId, usize)>,
    isolated: Option<JobId>,
}

impl Held {
    fn new(device: Device) -> Held {
        Held { device, free: device.mem, warps: Warps(0), tasks: 0, jobs: Vec::new(), isolated: None }
    }

    /// What it is able to hold.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Memory promised to nobody.
    #[must_use]
    pub fn free(&self) -> Bytes {
        self.free
    }

    /// Warps of the live tasks; they may exceed what the device holds at a time.
    #[must_use]
    pub fn warps(&self) -> Warps {
        self.warps
    }

    /// Live tasks.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.tasks
    }

    /// The job that has the device to itself.
    #[must_use]
    pub fn isolated(&self) -> Option<JobId> {
        self.isolated
    }

    /// Whether no task and no isolated job is here.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.tasks == 0 && self.isolated.is_none()
    }

    /// Whether a task of `job` may come here as far as isolation and the limit of workers go.
    #[must_use]
    pub fn admits(&self, job: JobId) -> bool {
        if self.isolated.is_some_and(|owner| owner != job) {
            return false;
        }
        let room = self.device.max_workers.is_none_or(|max| self.jobs.len() < max as usize);
        room || self.jobs.iter().any(|(id, _)| *id == job)
    }
}

/// A promise to one task: memory and warps of one device.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the pool counts what a lease holds until it is given back"]
pub struct Lease {
    task: TaskId,
    job: JobId,
    device: DeviceId,
    mem: Bytes,
    warps: Warps,
}

impl Lease {
    /// The task that it was promised to.
    #[must_use]
    pub fn task(&self) -> TaskId {
        self.task
    }

    /// Where.
    #[must_use]
    pub fn device(&self) -> DeviceId {
        self.device
    }
}

/// The devices that share the tasks of a node.
#[derive(Clone, Debug)]
pub struct Pool {
    held: Vec<Held>,
}

impl Pool {
    /// A pool without promises, devices in the order that policies try them in.
    #[must_use]
    pub fn new(devices: &[Device]) -> Pool {
        Pool { held: devices.iter().map(|d| Held::new(*d)).collect() }
    }

    /// The devices in order.
    #[must_use]
    pub fn devices(&self) -> &[Held] {
        &self.held
    }

    /// One device.
    #[must_use]
    pub fn get(&self, id: DeviceId) -> Option<&Held> {
        self.held.get(id.0)
    }

    /// Devices with their numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = (DeviceId, &Held)> {
        self.held.iter().enumerate().map(|(i, held)| (DeviceId(i), held))
    }

    /// The memory of the largest device, 0 without one.
    #[must_use]
    pub fn largest(&self) -> Bytes {
        self.held.iter().map(|h| h.device.mem).max().unwrap_or_default()
    }

    /// Promises `device` to a task. `None`, and nothing changes, where its memory cannot hold the task or another job has
    /// it to itself.
    pub(crate) fn grant(&mut self, ask: &Ask, device: DeviceId) -> Option<Lease> {
        let held = self.held.get_mut(device.0).filter(|h| h.admits(ask.job))?;
        held.free = Bytes(held.free.0.checked_sub(ask.need.mem().0)?);
        let warps = ask.need.warps();
        held.warps.0 += warps.0;
        held.tasks += 1;
        match held.jobs.iter_mut().find(|(id, _)| *id == ask.job) {
            Some((_, tasks)) => *tasks += 1,
            None => held.jobs.push((ask.job, 1)),
        }
        Some(Lease { task: ask.task, job: ask.job, device, mem: ask.need.mem(), warps })
    }

    /// Takes a promise back.
    pub(crate) fn give_back(&mut self, lease: Lease) {
        let Some(held) = self.held.get_mut(lease.device.0) else { return };
        held.free.0 += lease.mem.0;
        held.warps.0 -= lease.warps.0;
        held.tasks -= 1;
        if let Some(at) = held.jobs.iter().position(|(id, _)| *id == lease.job) {
            held.jobs[at].1 -= 1;
            if held.jobs[at].1 == 0 {
                held.jobs.remove(at);
            }
        }
    }

    /// Gives a whole device to an isolated job, if nobody is there.
    pub(crate) fn isolate(&mut self, device: DeviceId, job: JobId) -> bool {
        match self.held.get_mut(device.0) {
            Some(held) if held.is_idle() => {
                held.isolated = Some(job);
                true
            }
            _ => false,
        }
    }

    /// Ends every isolation of `job`.
    pub(crate) fn open(&mut self, job: JobId) {
        for held in self.held.iter_mut().filter(|h| h.isolated == Some(job)) {
            held.isolated = None;
        }
    }
}
