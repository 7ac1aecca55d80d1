//! A device and its promises: who is there, what is free, whom it admits.

use crate::device::{Device, DeviceId};
use crate::layout::Instance;
use crate::task::{Ask, Need, WorkerId};
use crate::units::{Bytes, Warps};
use geometry::load::Load;

/// A job on a device.
#[derive(Clone, Debug)]
pub(super) struct Guest {
    pub(super) job: WorkerId,
    /// Live tasks.
    pub(super) tasks: usize,
    /// Memory that its context takes.
    pub(super) context: Bytes,
}

/// The job for whose tasks a device is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) job: WorkerId,
    /// True if jobs that are there already may go on, because the waiting task waits for them to leave.
    pub(super) guests_pass: bool,
}

/// A device and its promises.
#[derive(Clone, Debug)]
pub struct Held {
    pub(super) device: Device,
    pub(super) promised: u64,
    /// Memory that is there for nobody, for a reason that the pool does not know.
    pub(super) withheld: Bytes,
    /// Memory that the context of the next job takes.
    pub(super) context: Bytes,
    pub(super) managed: u128,
    pub(super) warps: Warps,
    pub(super) tasks: usize,
    /// Jobs with a live task or a context; each stands here once.
    pub(super) guests: Vec<Guest>,
    pub(super) isolated: Option<WorkerId>,
    pub(super) kept: Option<Kept>,
    pub(super) is_closed: bool,
    pub(super) instance: Option<Instance>,
}

impl Held {
    pub(super) fn new(device: Device, instance: Option<Instance>) -> Held {
        Held {
            device,
            promised: 0,
            withheld: Bytes(0),
            context: Bytes(0),
            managed: 0,
            warps: Warps(0),
            tasks: 0,
            guests: Vec::new(),
            isolated: None,
            kept: None,
            is_closed: false,
            instance,
        }
    }

    /// Place on its GPU, if the policy made it.
    #[must_use]
    pub fn instance(&self) -> Option<&Instance> {
        self.instance.as_ref()
    }

    /// The device that it is to its tasks.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Memory promised to nobody.
    #[must_use]
    pub fn free(&self) -> Bytes {
        let taken = self.promised.saturating_add(self.withheld.0).saturating_add(self.contexts().0);
        Bytes(self.device.mem.0.saturating_sub(taken))
    }

    /// Memory of all contexts here.
    #[must_use]
    pub fn contexts(&self) -> Bytes {
        Bytes(self.guests.iter().map(|guest| guest.context.0).sum())
    }

    /// Memory that the context of the next job takes.
    #[must_use]
    pub fn context(&self) -> Bytes {
        self.context
    }

    /// Memory that the context of this job takes.
    #[must_use]
    pub fn context_of(&self, job: WorkerId) -> Bytes {
        let guest = self.guests.iter().find(|guest| guest.job == job);
        guest.map_or(Bytes(0), |guest| guest.context)
    }

    /// Tells whether it is kept for this job.
    #[must_use]
    pub fn is_kept_for(&self, job: WorkerId) -> bool {
        self.kept.is_some_and(|kept| kept.job == job)
    }

    /// Tells whether a job has a live task or a context here.
    #[must_use]
    pub fn is_guest(&self, job: WorkerId) -> bool {
        self.guests.iter().any(|guest| guest.job == job)
    }

    pub(super) fn is_full(&self) -> bool {
        self.device.max_workers.is_some_and(|max| self.guests.len() >= max as usize)
    }

    /// Memory that tasks can have together however many contexts there are: only other tasks keep it from them.
    #[must_use]
    pub fn certain(&self) -> Bytes {
        let most = self.device.max_workers.map_or(self.guests.len() + 1, |max| max as usize);
        Bytes(self.device.mem.0.saturating_sub(self.context.0.saturating_mul(most as u64)))
    }

    /// Tells whether a job's task of `mem` may have to wait until others have not only freed their tasks here, but left. To
    /// close the device to those would then be to wait for ever. A task also waits like that behind one for which the
    /// device is kept and that waits so itself.
    #[must_use]
    pub fn waits_for_guests(&self, job: WorkerId, mem: Bytes) -> bool {
        let is_behind = self.kept.is_some_and(|kept| kept.guests_pass && kept.job != job);
        is_behind
            || self.context > Bytes(0) && (mem > self.certain() || (self.is_full() && !self.is_guest(job)))
    }

    /// Jobs with a live task or a context here.
    #[must_use]
    pub fn guests(&self) -> usize {
        self.guests.len()
    }

    /// The free memory for a task of `ask`'s job: less than [`Held::free`] where the job needs a context first. `None` where
    /// the task may not come here.
    #[must_use]
    pub fn room(&self, id: DeviceId, ask: &Ask) -> Option<Bytes> {
        let is_open = ask.among.contains(id) && self.admits(ask.job);
        self.free().0.checked_sub(self.entry(ask.job).0).filter(|_| is_open).map(Bytes)
    }

    /// The most that one task could get here.
    #[must_use]
    pub fn largest_task(&self) -> Bytes {
        Bytes(self.device.mem.0.saturating_sub(self.context.0))
    }

    /// Memory that a job's context would add: none if the job is here already.
    pub(super) fn entry(&self, job: WorkerId) -> Bytes {
        if self.is_guest(job) { Bytes(0) } else { self.context }
    }

    /// Counts the bytes of managed memory that would find no room here, in addition to those that find none already, if the
    /// task came.
    #[must_use]
    pub fn overflow(&self, need: &Need) -> u128 {
        let over = |promised: u128, free: u64| promised.saturating_sub(free.into());
        let with =
            over(self.managed + u128::from(need.managed().0), self.free().0.saturating_sub(need.mem().0));
        with - over(self.managed, self.free().0)
    }

    /// Warps of the live tasks; they may exceed what the device holds at a time.
    #[must_use]
    pub fn warps(&self) -> Warps {
        self.warps
    }

    /// Warps in use as a part of those that it holds at a time.
    #[must_use]
    pub fn load(&self) -> Load {
        Load::new(self.warps.0, self.device.warps().0)
    }

    /// Live tasks.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.tasks
    }

    /// The job that has the device to itself.
    #[must_use]
    pub fn isolated(&self) -> Option<WorkerId> {
        self.isolated
    }

    /// Tells whether no task and no isolated job is here.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.tasks == 0 && self.isolated.is_none()
    }

    /// Tells whether a task of `job` may come here, whatever its memory: isolation, what the device is kept for, and the
    /// limit of workers decide.
    #[must_use]
    pub fn admits(&self, job: WorkerId) -> bool {
        let is_guest = self.is_guest(job);
        let is_others = self.isolated.is_some_and(|owner| owner != job);
        let is_kept = self.kept.is_some_and(|kept| kept.job != job && !(kept.guests_pass && is_guest));
        if self.is_closed || is_others || is_kept {
            return false;
        }
        is_guest || !self.is_full()
    }
}
