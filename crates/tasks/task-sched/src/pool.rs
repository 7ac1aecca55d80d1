//! The devices of a node and what they have promised.
//!
//! Only the pool makes leases, and it makes none that a device's memory cannot hold. No policy can therefore overcommit
//! memory, whatever it decides. A lease is neither copied nor cloned: giving it back consumes it.

mod held;

use crate::device::{Device, DeviceId};
use crate::layout::{Gpus, Instance};
use crate::task::{Among, Ask, TaskId, WorkerId};
use crate::units::{Bytes, Warps};

pub use held::Held;
use held::{Guest, Kept};
/// A promise to one task: memory and warps of one device.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the pool counts what a lease holds until it is given back"]
pub struct Lease {
    task: TaskId,
    job: WorkerId,
    device: DeviceId,
    mem: Bytes,
    managed: Bytes,
    warps: Warps,
}

impl Lease {
    /// The task that it was promised to.
    #[must_use]
    pub fn task(&self) -> TaskId {
        self.task
    }

    /// The device that it is on.
    #[must_use]
    pub fn device(&self) -> DeviceId {
        self.device
    }
}

/// The devices that share the tasks of a node.
#[derive(Clone, Debug)]
pub struct Pool {
    /// By number. An instance's number is its GPU's times the GPU's placement units, plus its start; `None` without one.
    held: Vec<Option<Held>>,
    gpus: Option<Gpus>,
    /// True if instances that are made limit their jobs.
    limits_workers: bool,
}

impl Pool {
    /// A pool without promises, devices in the order that policies try them in.
    #[must_use]
    pub fn new(devices: &[Device]) -> Pool {
        Pool {
            held: devices.iter().map(|d| Some(Held::new(*d, None))).collect(),
            gpus: None,
            limits_workers: true,
        }
    }

    /// A pool of GPUs without instances: the policy makes them.
    #[must_use]
    pub fn of_gpus(gpus: Gpus) -> Pool {
        let units = usize::from(gpus.model().placement_units);
        Pool { held: vec![None; gpus.count() * units], gpus: Some(gpus), limits_workers: true }
    }

    /// The pool without limits of jobs per device.
    #[must_use]
    pub fn without_workers(mut self) -> Pool {
        self.held.iter_mut().flatten().for_each(|held| held.device.max_workers = None);
        Pool { limits_workers: false, ..self }
    }

    /// The GPUs whose instances the policy makes.
    #[must_use]
    pub fn gpus(&self) -> Option<&Gpus> {
        self.gpus.as_ref()
    }

    /// Returns one more than the largest number that a device has or may get.
    #[must_use]
    pub fn numbers(&self) -> usize {
        self.held.len()
    }

    /// The devices in order.
    pub fn devices(&self) -> impl Iterator<Item = &Held> {
        self.held.iter().flatten()
    }

    /// A device.
    #[must_use]
    pub fn get(&self, id: DeviceId) -> Option<&Held> {
        self.held.get(id.0)?.as_ref()
    }

    /// Devices with their numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = (DeviceId, &Held)> {
        self.held.iter().enumerate().filter_map(|(i, held)| Some((DeviceId(i), held.as_ref()?)))
    }

    /// The memory of the largest device that is or could be made, 0 without one.
    #[must_use]
    pub fn largest(&self) -> Bytes {
        let of_gpus = self.gpus.as_ref().and_then(Gpus::largest).map(|device| device.mem);
        self.devices().map(|h| h.device.mem).chain(of_gpus).max().unwrap_or_default()
    }

    /// The most that `ask` could ever get: of the devices that it may use, the memory of the largest without its context.
    #[must_use]
    pub fn largest_for(&self, ask: &Ask) -> Bytes {
        if ask.among == Among::ALL && self.gpus.is_some() {
            return self.largest();
        }
        let able = self.iter().filter(|(id, _)| ask.among.contains(*id));
        able.map(|(_, held)| held.largest_task()).max().unwrap_or_default()
    }

    /// Tells whether some device, or some place for one, is unused.
    #[must_use]
    pub fn has_room(&self) -> bool {
        match &self.gpus {
            Some(gpus) => (0..gpus.count()).any(|gpu| gpus.model().placements_left(self.in_use(gpu)) > 0),
            None => self.devices().any(Held::is_idle),
        }
    }

    /// Units of a GPU on which instances are in use.
    #[must_use]
    pub fn in_use(&self, gpu: usize) -> u16 {
        let used = self.devices().filter(|held| !held.is_idle()).filter_map(Held::instance);
        used.filter(|instance| instance.gpu == gpu).fold(0, |mask, instance| mask | instance.mask())
    }

    /// Tells whether the instance can be made by giving up idle ones.
    #[must_use]
    pub fn has_place_for(&self, instance: &Instance) -> bool {
        let stays =
            |held: &&Held| held.instance().is_some_and(|other| !held.is_idle() || instance.is_beside(other));
        let mut alike = 0;
        for held in self.devices().filter(stays) {
            let Some(other) = held.instance() else { continue };
            if !held.is_idle() && !instance.is_beside(other) {
                return false;
            }
            alike += u32::from(other.gpu == instance.gpu && other.profile == instance.profile);
        }
        alike < instance.profile.max_instances
    }

    /// Makes an instance, and gives up the idle ones in its place. `false`, and nothing changes, where others are in use
    /// there.
    pub(crate) fn make(&mut self, instance: Instance) -> bool {
        let Some(gpus) = &self.gpus else { return false };
        let Some(mut device) = gpus.device(instance.profile) else { return false };
        device.max_workers = device.max_workers.filter(|_| self.limits_workers);
        let number = instance.gpu * usize::from(gpus.model().placement_units) + usize::from(instance.start.0);
        if number >= self.held.len() || !self.has_place_for(&instance) {
            return false;
        }
        let goes = |held: &Held| held.instance().is_some_and(|other| !instance.is_beside(other));
        self.held.iter_mut().for_each(|held| drop(held.take_if(|held| goes(held))));
        self.held[number] = Some(Held::new(device, Some(instance)));
        true
    }

    fn get_mut(&mut self, id: DeviceId) -> Option<&mut Held> {
        self.held.get_mut(id.0)?.as_mut()
    }

    /// Promises `device` to a task. `None`, and nothing changes, where its memory cannot hold the task or it is not open to
    /// the task's job.
    pub(crate) fn grant(&mut self, ask: &Ask, device: DeviceId) -> Option<Lease> {
        let held = self.get_mut(device)?;
        let (mem, managed) = (ask.need.mem(), ask.need.managed());
        held.room(device, ask).filter(|room| mem <= *room)?;
        let context = held.entry(ask.job);
        held.promised += mem.0;
        let warps = ask.need.warps();
        held.managed += u128::from(managed.0);
        held.warps.0 += warps.0;
        held.tasks += 1;
        match held.guests.iter_mut().find(|guest| guest.job == ask.job) {
            Some(guest) => guest.tasks += 1,
            None => held.guests.push(Guest { job: ask.job, tasks: 1, context }),
        }
        Some(Lease { task: ask.task, job: ask.job, device, mem, managed, warps })
    }

    /// Takes a promise back. A job with a context stays.
    pub(crate) fn give_back(&mut self, lease: Lease) {
        let Some(held) = self.get_mut(lease.device) else { return };
        held.promised -= lease.mem.0;
        held.managed -= u128::from(lease.managed.0);
        held.warps.0 -= lease.warps.0;
        held.tasks -= 1;
        if let Some(at) = held.guests.iter().position(|guest| guest.job == lease.job) {
            held.guests[at].tasks -= 1;
            if held.guests[at].tasks == 0 && held.guests[at].context == Bytes(0) {
                held.guests.remove(at);
            }
        }
    }

    /// Gives a whole device to an isolated job, if nobody is there.
    pub(crate) fn isolate(&mut self, device: DeviceId, job: WorkerId) -> bool {
        match self.get_mut(device) {
            Some(held) if held.is_idle() => {
                held.isolated = Some(job);
                true
            }
            _ => false,
        }
    }

    /// Ends every isolation of `job`.
    pub(crate) fn open(&mut self, job: WorkerId) {
        for held in self.held.iter_mut().flatten().filter(|h| h.isolated == Some(job)) {
            held.isolated = None;
        }
    }

    /// Adds a device, under the first number that is free.
    pub(crate) fn add(&mut self, device: Device) -> DeviceId {
        let at = self.held.iter().position(Option::is_none).unwrap_or(self.held.len());
        if at == self.held.len() {
            self.held.push(None);
        }
        self.held[at] = Some(Held::new(device, None));
        DeviceId(at)
    }

    /// Takes a device out. `false`, and nothing changes, while a job is there.
    pub(crate) fn remove(&mut self, id: DeviceId) -> bool {
        match self.held.get_mut(id.0) {
            Some(held) => held.take_if(|held| held.is_idle() && held.guests.is_empty()).is_some(),
            None => false,
        }
    }

    /// Lets the contexts of jobs that come to a device from now on take this much, and stay until [`Pool::leave`].
    pub(crate) fn set_context(&mut self, id: DeviceId, context: Bytes) {
        if let Some(held) = self.get_mut(id) {
            held.context = context;
        }
    }

    /// A job has a context of this size on a device.
    pub(crate) fn enter(&mut self, job: WorkerId, id: DeviceId, context: Bytes) {
        let Some(held) = self.get_mut(id) else { return };
        if !held.is_guest(job) {
            held.guests.push(Guest { job, tasks: 0, context });
        }
    }

    /// A job's contexts are gone, on every device where it has no live task.
    pub(crate) fn leave(&mut self, job: WorkerId) {
        for held in self.held.iter_mut().flatten() {
            held.guests.retain(|guest| guest.job != job || guest.tasks > 0);
        }
    }

    /// Sets a device's memory. It may be less than what is promised.
    pub(crate) fn set_mem(&mut self, id: DeviceId, mem: Bytes) {
        if let Some(held) = self.get_mut(id) {
            held.device.mem = mem;
        }
    }

    /// Keeps this much of a device's memory from everybody. It may exceed what is free.
    pub(crate) fn withhold(&mut self, id: DeviceId, mem: Bytes) {
        if let Some(held) = self.get_mut(id) {
            held.withheld = mem;
        }
    }

    /// Closes a device to new tasks, or opens it again.
    pub(crate) fn set_closed(&mut self, id: DeviceId, is_closed: bool) {
        if let Some(held) = self.get_mut(id) {
            held.is_closed = is_closed;
        }
    }

    /// Keeps a device for the tasks of one job, and no other device. Jobs that are there may go on if `guests_pass`.
    pub(crate) fn keep(&mut self, job: WorkerId, device: DeviceId, guests_pass: bool) {
        self.unkeep(job);
        if let Some(held) = self.get_mut(device) {
            held.kept = Some(Kept { job, guests_pass });
        }
    }

    /// Keeps no device for a job any more.
    pub(crate) fn unkeep(&mut self, job: WorkerId) {
        for held in self.held.iter_mut().flatten().filter(|held| held.is_kept_for(job)) {
            held.kept = None;
        }
    }
}
