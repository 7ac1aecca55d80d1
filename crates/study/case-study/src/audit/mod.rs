//! Checks that a run was legal, from its events alone.
//!
//! The audit keeps its own books and decides again with its own, slower code; it uses no policy, pool or scheduler. It
//! holds for every policy that
//!
//! - no device is over its memory, and none has tasks beside another job's isolated ones;
//! - a task is granted once, after its begin and before its free, and a free returns what the grant took;
//! - a `wait`, and every task still waiting when the next begin comes, had no device that could take it. What a device can
//!   take is the policy's rule; for `alg2` the audit deals the blocks to the SMs one by one;
//! - under `alg2` and `alg3`, the device is the one that the algorithm names;
//! - instances that the policy makes can exist together, and none in use is given up.
//!
//! `tessera`'s kept devices are held to their promise: nobody is passed on *every* device that could hold it.

mod daemon;
mod layout;
mod rules;

use std::collections::{BTreeMap, BTreeSet};

pub use daemon::{Account, daemon};

use crate::event::RunEvent;
use task_sched::Device;
use task_sched::Event as Sched;
use task_sched::{Gpus, Instance};
use task_sched::{Need, TaskId, WorkerId};

/// A fault of a run, with the number of the event from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The event's position.
    pub at: usize,
    /// The fault, as a phrase.
    pub what: String,
}

/// A task that began.
#[derive(Clone, Debug)]
struct BegunTask {
    job: WorkerId,
    need: Need,
    /// The device, once granted.
    dev: Option<usize>,
    /// Blocks per SM, once granted under `alg2`; empty for a task that has its device alone.
    blocks: Vec<u64>,
    /// How many tasks that began later were granted a device that could hold this one, since it began.
    passed: u32,
    /// Devices that took such a task after the sixteenth.
    passed_on: Vec<usize>,
}

impl BegunTask {
    fn new(job: WorkerId, need: Need) -> BegunTask {
        BegunTask { job, need, dev: None, blocks: Vec::new(), passed: 0, passed_on: Vec::new() }
    }
}

/// Books of a device.
#[derive(Clone, Debug)]
struct Book {
    device: Device,
    used: u128,
    warps: u128,
    owner: Option<WorkerId>,
    /// Blocks and warps in use per SM.
    sms: Vec<(u64, u64)>,
    pointer: usize,
    /// Place of the instance, if the policy made it.
    instance: Option<Instance>,
}

impl Book {
    fn new(device: Device, instance: Option<Instance>) -> Book {
        let sms = vec![(0, 0); device.sms as usize];
        Book { device, used: 0, warps: 0, owner: None, sms, pointer: 0, instance }
    }
}

#[derive(Default)]
struct Audit {
    policy: &'static str,
    books: BTreeMap<usize, Book>,
    /// GPUs whose instances the policy makes.
    gpus: Option<Gpus>,
    bound: BTreeMap<WorkerId, usize>,
    isolated: BTreeMap<WorkerId, usize>,
    /// Isolated jobs without a device: no task of theirs may be granted one.
    homeless: BTreeSet<WorkerId>,
    tasks: Vec<(TaskId, BegunTask)>,
    found: Vec<Violation>,
    at: usize,
}

/// Every rule that `events` breaks, in their order.
#[must_use]
pub fn audit(events: &[RunEvent]) -> Vec<Violation> {
    let mut audit = Audit::default();
    for (at, event) in events.iter().enumerate() {
        audit.at = at;
        // A free and its grants are one step, and so are a begin and its answer: between two steps nobody may wait in vain.
        if matches!(event, RunEvent::Begin { .. }) {
            audit.nobody_waits_in_vain(None);
        }
        audit.step(event);
    }
    audit.found
}

impl Audit {
    fn report(&mut self, what: String) {
        self.found.push(Violation { at: self.at, what });
    }

    fn step(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Node { policy, devices, gpus, .. } => {
                self.policy = policy;
                self.gpus.clone_from(gpus);
                self.books = devices.iter().map(|d| Book::new(*d, None)).enumerate().collect();
            }
            RunEvent::Layout { devices, .. } => self.layout(devices),
            RunEvent::Sched(Sched::Job { job, isolated, dev, .. }) => {
                self.job(*job, *isolated, dev.map(|d| d.0))
            }
            RunEvent::Begin { task, job, need, .. } => {
                if self.tasks.iter().any(|(id, _)| id == task) {
                    self.report(format!("task {} begins twice", task.0));
                }
                // Only `tessera` places a task without room for its managed memory.
                let need = if self.policy == "tessera" { *need } else { need.all_hard() };
                self.tasks.push((*task, BegunTask::new(*job, need)));
            }
            RunEvent::Sched(Sched::Grant { task, dev, .. }) => self.grant(*task, dev.0),
            RunEvent::Sched(Sched::Wait { task, .. }) => self.nobody_waits_in_vain(Some(*task)),
            RunEvent::Sched(Sched::Refuse { task, .. }) => self.refuse(*task),
            RunEvent::Crash { task, .. } => self.crash(*task),
            RunEvent::Sched(Sched::Free { task, .. }) => self.free(*task),
            RunEvent::Sched(Sched::End { job, .. }) => self.end(*job),
        }
    }

    fn job(&mut self, job: WorkerId, isolated: bool, dev: Option<usize>) {
        let Some(dev) = dev else {
            if isolated {
                self.homeless.insert(job);
            }
            return;
        };
        self.bound.insert(job, dev);
        let owns = !matches!(self.policy, "cg");
        if owns && self.isolated.values().any(|d| *d == dev) {
            self.report(format!("job {} starts on device {dev}, which another job has to itself", job.0));
        }
        if owns {
            let Some(book) = self.books.get_mut(&dev) else {
                return self.report(format!("job {} starts on device {dev}, which does not exist", job.0));
            };
            book.owner = Some(job);
            let is_used = book.used > 0 || book.warps > 0;
            self.isolated.insert(job, dev);
            if is_used {
                self.report(format!("job {} is to be alone on device {dev}, where tasks run", job.0));
            }
        }
    }

    fn seen(&mut self, task: TaskId) -> Option<usize> {
        let at = self.tasks.iter().position(|(id, _)| *id == task);
        if at.is_none() {
            self.report(format!("task {} has not begun", task.0));
        }
        at
    }

    fn grant(&mut self, task: TaskId, dev: usize) {
        let Some(at) = self.seen(task) else { return };
        let seen = self.tasks[at].1.clone();
        if seen.dev.is_some() {
            self.report(format!("task {} is granted twice", task.0));
            return;
        }
        if self.homeless.contains(&seen.job) {
            self.report(format!("task {} of isolated job {}, which has no device", task.0, seen.job.0));
        }
        if !self.books.contains_key(&dev) {
            self.report(format!("task {} is granted device {dev}, which does not exist", task.0));
            return;
        }
        if self.books[&dev].owner.is_some_and(|owner| owner != seen.job) {
            self.report(format!("task {} is granted device {dev}, which another job has to itself", task.0));
        }
        if let Some(named) = self.named(&seen).filter(|named| *named != dev) {
            self.report(format!("task {} is granted device {dev}; the algorithm names {named}", task.0));
        }
        self.pass(at, dev);
        let blocks = if self.policy == "alg2" { self.deal(dev, &seen.need) } else { None };
        let Some(book) = self.books.get_mut(&dev) else { return };
        book.used += u128::from(seen.need.mem().0);
        book.warps += seen.need.warps().0;
        if let Some((blocks, pointer)) = blocks {
            for (sm, n) in book.sms.iter_mut().zip(&blocks) {
                *sm = (sm.0 + n, sm.1 + n * u64::from(seen.need.warps_per_block()));
            }
            book.pointer = pointer;
            self.tasks[at].1.blocks = blocks;
        }
        let (used, mem) = (book.used, book.device.mem);
        if used > u128::from(mem.0) {
            self.report(format!("device {dev} promises {used} of its {mem}"));
        }
        self.tasks[at].1.dev = Some(dev);
    }

    /// Counts who was passed by the grant of `dev` to the task at `at`.
    fn pass(&mut self, at: usize, dev: usize) {
        if self.policy != "tessera" || self.isolated.contains_key(&self.tasks[at].1.job) {
            return;
        }
        let (mem, units) = (self.books[&dev].device.mem, self.units_of(dev));
        for i in 0..at {
            let (task, seen) = &self.tasks[i];
            if seen.dev.is_some() || (self.gpus.is_none() && seen.need.mem() > mem) {
                continue;
            }
            let (task, is_late) = (*task, seen.passed >= 16);
            let seen = &mut self.tasks[i].1;
            seen.passed += 1;
            for unit in units.iter().filter(|_| is_late) {
                if !seen.passed_on.contains(unit) {
                    seen.passed_on.push(*unit);
                }
            }
            if is_late && self.is_passed_everywhere(&self.tasks[i].1) {
                let what = format!("task {} is passed on every device after 16 times", task.0);
                self.found.push(Violation { at: self.at, what });
            }
        }
    }

    fn refuse(&mut self, task: TaskId) {
        let Some(at) = self.seen(task) else { return };
        let (_, seen) = self.tasks.remove(at);
        // A refused task must not fit any empty device that it may use.
        let fits = |b: &Book| match self.policy {
            "alg3" | "case-mig" => seen.need.mem() < b.device.mem,
            _ => seen.need.mem() <= b.device.mem,
        };
        let bound = self.bound.get(&seen.job);
        let first_only = (self.policy == "schedgpu").then_some(0);
        let mut usable =
            self.books.iter().filter(|(d, _)| bound.copied().or(first_only).is_none_or(|b| b == **d));
        if usable.any(|(_, b)| fits(b)) || self.could_ever_make(&seen.need) {
            self.report(format!("task {} is refused although an empty device could hold it", task.0));
        }
    }

    fn crash(&mut self, task: TaskId) {
        let Some(at) = self.seen(task) else { return };
        let (_, seen) = self.tasks.remove(at);
        if self.policy != "cg" {
            self.report(format!("task {} crashes; only cg lets tasks crash", task.0));
        }
        let Some(dev) = self.bound.get(&seen.job) else { return };
        let Some(book) = self.books.get(dev) else { return };
        if book.used + u128::from(seen.need.mem().0) <= u128::from(book.device.mem.0) {
            self.report(format!("task {} crashes although it fits", task.0));
        }
    }

    fn free(&mut self, task: TaskId) {
        let Some(at) = self.seen(task) else { return };
        let (_, seen) = self.tasks.remove(at);
        let Some(dev) = seen.dev else { return };
        let Some(book) = self.books.get_mut(&dev) else { return };
        book.used -= u128::from(seen.need.mem().0);
        book.warps -= seen.need.warps().0;
        for (sm, n) in book.sms.iter_mut().zip(&seen.blocks) {
            *sm = (sm.0 - n, sm.1 - n * u64::from(seen.need.warps_per_block()));
        }
    }

    fn end(&mut self, job: WorkerId) {
        if self.tasks.iter().any(|(_, s)| s.job == job) {
            self.report(format!("job {} ends with live tasks", job.0));
        }
        self.bound.remove(&job);
        self.homeless.remove(&job);
        let own = self.isolated.remove(&job).and_then(|dev| self.books.get_mut(&dev));
        if let Some(book) = own {
            book.owner = None;
        }
    }
}
