//! Compares NVML's view of a device with the promises for it.

use std::collections::BTreeSet;

use task_sched::{Bytes, DeviceId, WorkerId};

use super::{Core, Effect, Process, Stage, round_up};

/// A look at a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Bytes in use by anybody.
    pub used: u64,
    /// Processes with a context.
    pub processes: Vec<Seen>,
}

/// A process that NVML shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The process.
    pub process: Process,
    /// Bytes; `None` where the driver does not say.
    pub used: Option<u64>,
    /// True if it is a server that the device's MPS daemon started.
    pub is_server: bool,
}

/// No context is larger: what a process uses above it without a task is memory that it did not ask for.
const LARGEST_CONTEXT: u64 = 2 << 30;

/// Part of a context that a process may use above its promise before it is named. Contexts grow with a program's code and stacks:
/// one on an H100 had 6 MiB more than the 512 of the default.
const SLACK: u64 = 8;

/// Rounds of looks at a program that `exec` ended, after which the next program of its process waits no more: 1 to 4 s.
pub(super) const MOST_LOOKS: u32 = 8;

impl Core {
    /// NVML shows this of a device.
    pub fn sampled(&mut self, device: DeviceId, sample: &Sample, t: f64) -> Vec<Effect> {
        if let Some(dev) = self.devices.get_mut(&device) {
            dev.lost = None;
            self.apply_closed(device);
        }
        self.look_for_servers(device, sample, t);
        let gone = self.bury(device, sample, t);
        let is_certain_less = self.charge(device, sample, t);
        let workers: Vec<WorkerId> = if is_certain_less {
            self.workers.keys().copied().collect()
        } else {
            gone.into_iter().flat_map(|process| self.images_of(process)).collect()
        };
        self.reconsider_all(workers, t)
    }

    /// Counts a round of looks: NVML was asked once about each device, whether or not it answered.
    pub fn looked(&mut self, t: f64) -> Vec<Effect> {
        let ended = self.workers.values_mut().filter(|worker| !worker.is_alive);
        ended.for_each(|worker| worker.looks = worker.looks.saturating_add(1));
        let waited_for = self.workers.values().filter(|worker| worker.looks == MOST_LOOKS);
        let workers = waited_for.flat_map(|worker| self.images_of(worker.image.process)).collect();
        self.reconsider_all(workers, t)
    }

    fn reconsider_all(&mut self, workers: Vec<WorkerId>, t: f64) -> Vec<Effect> {
        workers.into_iter().for_each(|worker| self.reconsider(worker, t));
        self.settle(t);
        self.close_unused(t);
        self.take()
    }

    /// NVML does not answer for a device: it grants nothing until it does.
    pub fn lost(&mut self, device: DeviceId, why: &str) {
        if let Some(dev) = self.devices.get_mut(&device) {
            dev.lost = Some(why.to_owned());
        }
        self.apply_closed(device);
    }

    /// The jobs whose log is to name a process that uses too much of a device: its own, or where nothing was ever granted to it,
    /// those of its user that share the device.
    #[must_use]
    pub fn jobs_of(&self, process: Process, uuid: &str, uid: Option<u32>) -> Vec<u32> {
        let own: BTreeSet<u32> =
            self.images_of(process).filter_map(|id| self.workers.get(&id)).map(|w| w.job).collect();
        if !own.is_empty() {
            return own.into_iter().collect();
        }
        let device = self.device(uuid);
        let shares =
            |job: &super::Job| device.is_some_and(|id| job.devices.contains(&id)) && Some(job.uid) == uid;
        self.jobs.iter().filter(|(_, job)| shares(job)).map(|(id, _)| *id).collect()
    }

    /// Ended workers that NVML no longer shows are gone from the device. Returns their processes, whose programs after `exec` may wait no more.
    fn bury(&mut self, device: DeviceId, sample: &Sample, t: f64) -> Vec<Process> {
        let is_shown = |process| sample.processes.iter().any(|seen| seen.process == process);
        let ended = self.workers.iter().filter(|(_, w)| !w.is_alive && w.present.contains(&device));
        let ended = ended.map(|(id, worker)| (*id, worker.image.process));
        let gone: Vec<(WorkerId, Process)> = ended.filter(|(_, process)| !is_shown(*process)).collect();
        for (worker, _) in &gone {
            self.leaves_device(*worker, device);
            self.bury_if_gone(*worker, t);
        }
        gone.into_iter().map(|(_, process)| process).collect()
    }

    /// Withholds what no promise explains: contexts larger than thought, processes above their leases or without any, and
    /// memory of ended processes that the driver has not freed yet. Names the processes that took it, except for what a context may be.
    /// Returns whether a context is larger than thought: less is certain then.
    fn charge(&mut self, device: DeviceId, sample: &Sample, t: f64) -> bool {
        let Some(held) = self.sched.pool().get(device) else { return false };
        let (before, mem_before, mut context) = (held.context(), held.device().mem, held.context());
        let (mut explained, mut over) = (0_u64, Vec::new());
        for worker in self.workers.iter().filter(|(_, w)| w.present.contains(&device)).map(|(id, _)| *id) {
            let Some(state) = self.workers.get(&worker) else { continue };
            let leased = self.promised(worker, device);
            let promised = leased.saturating_add(held.context_of(worker).0);
            let shown = sample.processes.iter().find(|seen| seen.process == state.image.process);
            let Some(used) = shown.map(|seen| seen.used.unwrap_or(promised)) else { continue };
            explained = explained.saturating_add(used.min(promised));
            if leased == 0 && state.is_alive && used > context.0 && used <= LARGEST_CONTEXT {
                context = round_up(Bytes(used));
            } else if used.saturating_sub(promised) > context.0 / SLACK {
                over.push((state.image.process, used - promised));
            }
        }
        let Some(dev) = self.devices.get_mut(&device) else { return false };
        dev.baseline = dev.baseline.min(sample.used);
        let mem = dev.mem(dev.baseline);
        self.sched.set_mem(device, mem);
        dev.withheld = sample.used.saturating_sub(dev.baseline).saturating_sub(explained);
        let last = std::mem::replace(&mut dev.over, over.iter().map(|(process, _)| *process).collect());
        let (withheld, uuid) = (dev.withheld, dev.uuid.clone());
        self.sched.withhold(device, Bytes(withheld));
        self.sched.set_context(device, context);
        if mem != mem_before {
            self.log_devices(t, false);
        }
        over.extend(self.strangers(device, sample));
        for (process, excess) in over {
            let lasts = last.contains(&process);
            self.effects.push(Effect::Overuse { process, uuid: uuid.clone(), excess, lasts });
        }
        context != before
    }

    /// Processes on a device to which nothing was granted there. An MPS server is none: its memory is its clients', and is
    /// withheld like a stranger's. Nor is a process with a context alone: a program may make one before its first task.
    fn strangers(&mut self, device: DeviceId, sample: &Sample) -> Vec<(Process, u64)> {
        let is_known = |process| {
            self.images_of(process)
                .any(|id| self.workers.get(&id).is_some_and(|w| w.present.contains(&device)))
        };
        let context = self.sched.pool().get(device).map_or(0, |held| held.context().0);
        let beyond = |seen: &&Seen| seen.used.is_some_and(|used| used > context);
        let unknown = sample.processes.iter().filter(|seen| !seen.is_server && !is_known(seen.process));
        let strangers: Vec<(Process, u64)> =
            unknown.filter(beyond).map(|seen| (seen.process, seen.used.unwrap_or(0))).collect();
        if let Some(dev) = self.devices.get_mut(&device) {
            dev.over.extend(strangers.iter().map(|(process, _)| *process));
        }
        strangers
    }

    /// Memory that the tasks of a worker hold on a device, bytes.
    fn promised(&self, worker: WorkerId, device: DeviceId) -> u64 {
        let records =
            self.tasks.of(worker).into_iter().filter_map(|id| self.tasks.get(id)).map(|task| task.record);
        let here = records.filter(|r| r.stage.device() == Some(device) && r.stage != Stage::Waiting);
        here.fold(0, |sum, r| sum.saturating_add(r.need.total().0))
    }
}
