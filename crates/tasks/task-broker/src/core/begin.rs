//! A task begins, and is answered.

use task_sched::{Among, Answer, Ask, Bytes, DeviceId, Event, Need, Refusal, TaskId, Warps, WorkerId};
use task_wire::{Begin, Code, Grant, Refused, Reply, Text};

use super::sample::MOST_LOOKS;
use super::{
    ALL_TASKS, Core, Effect, Image, JOB_TASKS, Key, Of, Process, Record, Stage, Task, TaskRecord, USER_TASKS,
    Worker, round_up,
};

const JOB_ENDED: &str = "the job ended";

/// State of a task after it was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Placed {
    On(DeviceId),
    Waits,
    Refused { code: Code, need: u64, most: u64, why: String },
}

/// Room for an MPS server, bytes: it takes 66 MiB on an H200 (docs/real-gpu.md).
const MPS_SERVER: u64 = 256 << 20;

impl Core {
    /// A process of `job` begins a task. A task that was begun before is answered again, unless it still waits.
    pub fn begin(&mut self, job: u32, process: Process, begin: &Begin, t: f64) -> Vec<Effect> {
        let image = Image { process, image: begin.image };
        self.replaced(image, t);
        let worker = self.worker(job, image, t);
        match self.tasks.named(worker, begin.nonce).and_then(|id| Some((id, self.stage(id)?))) {
            Some((id, Stage::Running(device))) => {
                let grant = self.grant_of(id, device);
                self.tell(worker, grant);
            }
            Some((_, Stage::Waiting)) => {}
            // Its process lives, so its job has ended.
            Some((_, Stage::Quarantined(_))) => self.tell(worker, job_ended(begin.nonce)),
            None => self.new_task(worker, begin, t),
        }
        self.settle(t);
        self.forget_if_unused(worker, t);
        self.take()
    }

    /// `exec` ends the tasks of the images before.
    fn replaced(&mut self, image: Image, t: f64) {
        let others: Vec<WorkerId> =
            self.images_of(image.process).filter(|id| self.images.get(&image) != Some(id)).collect();
        others.into_iter().for_each(|worker| self.worker_ended(worker, t));
    }

    fn worker(&mut self, job: u32, image: Image, t: f64) -> WorkerId {
        if let Some(known) = self.images.get(&image) {
            return *known;
        }
        let id = WorkerId(self.next_worker);
        self.next_worker += 1;
        self.insert_worker(id, job, image);
        self.log_worker(id, t);
        id
    }

    pub(super) fn log_worker(&mut self, id: WorkerId, t: f64) {
        self.log(&Event::Job { t, job: id, arrival: t, isolated: false, dev: None }, Some(id), None);
    }

    /// The begin of a task that is known, in a new section of the log.
    pub(super) fn log_begin(&mut self, id: TaskId, t: f64) {
        if let Some(Task { worker, record }) = self.tasks.get(id).copied() {
            self.log_asked(id, worker, sizes(&record.need), t);
        }
    }

    fn log_asked(&mut self, id: TaskId, worker: WorkerId, (mem, managed, blocks, threads): Sizes, t: f64) {
        if !self.is_logged {
            return;
        }
        let (task, job, mem) = (id.0, worker.0, mem.0);
        let begin = task_sched::event_line::Begin { t, task, job, mem, managed, blocks, threads };
        let mut line = begin.json();
        line["pid"] = self.workers.get(&worker).map(|w| w.image.process.pid).into();
        self.effects.push(Effect::Log(line));
    }

    pub(super) fn insert_worker(&mut self, id: WorkerId, job: u32, image: Image) {
        let present = std::collections::BTreeSet::new();
        self.workers
            .insert(id, Worker { image, job, group: None, single: None, is_alive: true, looks: 0, present });
        self.images.insert(image, id);
    }

    fn new_task(&mut self, worker: WorkerId, begin: &Begin, t: f64) {
        let id = TaskId(self.next_task);
        self.next_task += 1;
        if let Some(state) = self.workers.get_mut(&worker).filter(|_| begin.sticky) {
            state.single = state.single.or(state.present.first().copied());
        }
        let usable = self.lost_its_device(worker).map_or(Ok(()), Err);
        let usable =
            usable.and_then(|()| self.bind(worker, begin.bound.as_str())).and_then(|()| self.usable(worker));
        let need = usable.and_then(|usable| self.need_of(worker, begin, &usable));
        // The log has what the worker asked for, even if that is refused.
        let asked = (round_up(Bytes(begin.mem)), Bytes(begin.managed), begin.blocks, begin.threads);
        self.log_asked(id, worker, need.as_ref().map_or(asked, sizes), t);
        let placed = match need {
            Err(refused) => refused,
            Ok(need) => {
                let (task, nonce, stage) = (id, begin.nonce, Stage::Waiting);
                let single = begin.whole || begin.sticky;
                let record = TaskRecord { task, nonce, stage, need, single, since: t };
                self.tasks.insert(id, Task { worker, record });
                self.place(id)
            }
        };
        match placed {
            Placed::On(device) => self.granted(id, device, t),
            Placed::Waits => {
                self.log(&Event::Wait { t, task: id }, Some(worker), None);
                self.save_task(id);
            }
            Placed::Refused { code, need, most, why } => {
                self.log(&Event::Refuse { t, task: id, why: why.clone() }, Some(worker), None);
                self.tasks.remove(id);
                let refused = Refused { nonce: begin.nonce, code, need, most, why: Text::cut(&why) };
                self.tell(worker, Reply::Refused(refused));
            }
        }
    }

    /// Binds a worker to the group of a device that it sees already.
    fn bind(&mut self, worker: WorkerId, uuid: &str) -> Result<(), Placed> {
        let Some(state) = self.workers.get(&worker) else { return Ok(()) };
        if uuid.is_empty() || state.group.is_some() {
            return Ok(());
        }
        let job_has = |id: &DeviceId| self.jobs.get(&state.job).is_some_and(|job| job.devices.contains(id));
        let Some(id) = self.device(uuid).filter(job_has) else {
            let why =
                format!("CUDA was initialised on device {uuid}, which is none of the job's shared devices");
            return Err(Placed::Refused { code: Code::NotItsDevice, need: 0, most: 0, why });
        };
        let group = self.devices.get(&id).map(|dev| dev.group.clone());
        if let Some(state) = self.workers.get_mut(&worker) {
            state.group = group;
        }
        Ok(())
    }

    /// The devices that a worker may use now.
    pub(super) fn usable(&self, worker: WorkerId) -> Result<Vec<DeviceId>, Placed> {
        let state = self.workers.get(&worker);
        let Some((state, job)) = state.and_then(|state| Some((state, self.jobs.get(&state.job)?))) else {
            let why = JOB_ENDED.to_owned();
            return Err(Placed::Refused { code: Code::JobEnded, need: 0, most: 0, why });
        };
        let in_group = |id: &DeviceId| match (&state.group, self.devices.get(id)) {
            (Some(group), Some(dev)) => dev.group == *group,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        let is_seen = |id: &DeviceId| state.single.is_none_or(|single| single == *id);
        Ok(job.devices.iter().copied().filter(|id| in_group(id) && is_seen(id)).collect())
    }

    /// The memory of a process that has a device to itself. The device's MPS server comes with the first process and stays until
    /// the last job's end: without room for it, the next such process would wait for ever.
    fn largest_alone(&self, id: DeviceId) -> Bytes {
        let has_server = self.devices.get(&id).is_some_and(|device| device.mps_pipe.is_some());
        let server = if has_server { MPS_SERVER } else { 0 };
        let largest = self.sched.pool().get(id).map(task_sched::Held::largest_task).unwrap_or_default();
        Bytes(largest.0.saturating_sub(server))
    }

    /// Refuses a task of a job, or of a user, with as many as one may have, or when all together have too many.
    fn has_room_for_a_task(&self, worker: WorkerId) -> Result<(), Placed> {
        let job_of = |worker| self.workers.get(&worker).map(|state| state.job);
        let uid_of = |job: Option<u32>| self.jobs.get(&job?).map(|job| job.uid);
        let (job, uid) = (job_of(worker), uid_of(job_of(worker)));
        // Counted only where there are as many at all.
        let are_full = |most, are_own: &dyn Fn(&Task) -> bool| {
            self.tasks.len() >= most && self.tasks.values().filter(|task| are_own(task)).count() >= most
        };
        let why = if are_full(JOB_TASKS, &|task| job_of(task.worker) == job) {
            format!("the job has {JOB_TASKS} tasks")
        } else if are_full(USER_TASKS, &|task| uid_of(job_of(task.worker)) == uid) {
            format!("the user's jobs together have {USER_TASKS} tasks on this node")
        } else if self.tasks.len() >= ALL_TASKS {
            format!("all jobs together have {ALL_TASKS} tasks on this node")
        } else {
            return Ok(());
        };
        let why = format!("{why}: free some first");
        Err(Placed::Refused { code: Code::TableFull, need: 0, most: 0, why })
    }

    /// Gives the need of a task: as it says, or as its job declared, or a whole device.
    fn need_of(&self, worker: WorkerId, begin: &Begin, usable: &[DeviceId]) -> Result<Need, Placed> {
        self.has_room_for_a_task(worker)?;
        let job = self.workers.get(&worker).map(|state| state.job);
        let bad = |why: task_sched::NeedError| {
            let why = why.to_string();
            Placed::Refused { code: Code::BadLaunch, need: 0, most: 0, why }
        };
        if !begin.whole {
            let need = Need::new(round_up(Bytes(begin.mem)), begin.blocks, begin.threads).map_err(bad)?;
            return Ok(need.with_managed(Bytes(begin.managed)));
        }
        let helds = || usable.iter().filter_map(|id| self.sched.pool().get(*id));
        let declared = job.and_then(|job| self.jobs.get(&job)?.declared).map(|mem| round_up(Bytes(mem)));
        let alone = usable.iter().map(|id| self.largest_alone(*id)).max().unwrap_or_default();
        // `alg3` never fills a device: what it leaves must not let anybody in.
        let alone = if self.is_strict { Bytes(alone.0.saturating_sub(1)) } else { alone };
        // A program that says nothing about its launches counts as one that fills the device.
        let Warps(warps) = helds().map(|held| held.device().warps()).max().unwrap_or_default();
        let blocks = u64::try_from(warps / 32).unwrap_or(1).max(1);
        Need::new(declared.unwrap_or(alone), blocks, 1024).map_err(bad)
    }

    /// Tries a task that is in nobody's queue.
    pub(super) fn place(&mut self, id: TaskId) -> Placed {
        let Some(task) = self.tasks.get(id).copied() else { return Placed::Waits };
        let usable = match self.usable(task.worker) {
            Ok(usable) => usable,
            Err(refused) => return refused,
        };
        if self.waits_for_exec(task.worker) {
            return Placed::Waits;
        }
        if self.tasks.holds(task.worker) || self.waits_for_exits(id, &usable) {
            return self.grow(id, &usable);
        }
        match self.ask(id, &usable) {
            Answer::Granted(device) => Placed::On(device),
            Answer::Refused(why) => refusal(&why),
            Answer::Waits | Answer::Crashed => {
                let is_first = self.tasks.next_waiting(task.worker, None).is_none_or(|first| first >= id);
                if !is_first {
                    // One pass of the scheduler could grant two tasks of a worker in two groups. The grant or end of the
                    // first brings this one back.
                    self.unqueue(id);
                }
                Placed::Waits
            }
        }
    }

    /// Tells whether NVML may still show what the program before `exec` had. Once a worker has a context, NVML shows the process,
    /// and nobody could see that its memory of before is free. After [`MOST_LOOKS`], NVML may show it for another reason
    /// or does not answer for its device.
    fn waits_for_exec(&self, worker: WorkerId) -> bool {
        let is_ended = |id: WorkerId| {
            self.workers.get(&id).is_some_and(|state| !state.is_alive && state.looks < MOST_LOOKS)
        };
        let new = self.workers.get(&worker).filter(|state| state.group.is_none());
        new.is_some_and(|state| self.images_of(state.image.process).any(is_ended))
    }

    pub(super) fn is_waiting(&self, id: TaskId) -> bool {
        self.stage(id) == Some(Stage::Waiting)
    }

    /// Asks the scheduler for one of `among`.
    pub(super) fn ask(&mut self, id: TaskId, among: &[DeviceId]) -> Answer {
        match self.ask_of(id, among) {
            Some(ask) => self.sched.begin(ask),
            None => Answer::Waits,
        }
    }

    pub(super) fn ask_of(&self, id: TaskId, among: &[DeviceId]) -> Option<Ask> {
        let Task { worker, record } = self.tasks.get(id)?;
        let need = record.need;
        let among = Among::of(among.iter().copied());
        let (job, job_mem, holds) = (*worker, need.mem(), self.tasks.holds(*worker));
        Some(Ask { task: id, job, need, job_mem, bound: None, among, isolated: false, holds })
    }

    /// The scheduler has given a task its device.
    pub(super) fn granted(&mut self, id: TaskId, device: DeviceId, t: f64) {
        self.record_grant(id, device, t);
        self.reconsider_worker_of(id, t);
    }

    fn reconsider_worker_of(&mut self, id: TaskId, t: f64) {
        if let Some(worker) = self.tasks.get(id).map(|task| task.worker) {
            self.reconsider(worker, t);
        }
    }

    pub(super) fn record_grant(&mut self, id: TaskId, device: DeviceId, t: f64) {
        let Some(task) = self.tasks.get(id).copied() else { return };
        let group = self.devices.get(&device).map(|dev| dev.group.clone());
        let context =
            self.sched.pool().get(device).map(|held| held.context_of(task.worker)).unwrap_or_default();
        if let Some(worker) = self.workers.get_mut(&task.worker) {
            worker.group = group;
            if task.record.single {
                worker.single = Some(device);
            }
            if worker.present.insert(device) {
                let (job, image) = (worker.job, worker.image);
                let record = Record { job, worker: task.worker, image, of: Of::Context(device, context) };
                debug_assert_eq!(record.key(), Key::Context(task.worker, device));
                self.effects.push(Effect::Save(record));
            }
        }
        self.set_stage(id, Stage::Running(device), t);
        self.log(&Event::Grant { t, task: id, dev: device }, Some(task.worker), Some(device));
        let grant = self.grant_of(id, device);
        self.tell(task.worker, grant);
    }

    fn grant_of(&self, id: TaskId, device: DeviceId) -> Reply {
        let task = self.tasks.get(id);
        let worker = task.and_then(|task| self.workers.get(&task.worker));
        let dev = self.devices.get(&device);
        let group: Vec<&str> =
            match worker.filter(|worker| worker.single.is_none()).and_then(|w| self.jobs.get(&w.job)) {
                Some(job) => {
                    let devs = job.devices.iter().filter_map(|id| self.devices.get(id));
                    devs.filter(|other| Some(&other.group) == dev.map(|dev| &dev.group))
                        .map(|dev| dev.uuid.as_str())
                        .collect()
                }
                None => dev.iter().map(|dev| dev.uuid.as_str()).collect(),
            };
        let ordinal = group.iter().position(|uuid| dev.is_some_and(|dev| dev.uuid == *uuid)).unwrap_or(0);
        Reply::Granted(Grant {
            nonce: task.map_or(0, |task| task.record.nonce),
            task: id.0,
            mem: task.map_or(0, |task| task.record.need.mem().0),
            ordinal: ordinal as u64,
            uuid: dev.map_or(Text::EMPTY, |dev| Text::cut(&dev.uuid)),
            mps_pipe: dev.and_then(|dev| dev.mps_pipe.as_deref()).map_or(Text::EMPTY, Text::cut),
            visible: Text::cut(&group.join(",")),
        })
    }

    /// Gives what is free to those that wait, until nobody else fits.
    pub(super) fn settle(&mut self, t: f64) {
        loop {
            let grants = self.sched.retry();
            if grants.is_empty() {
                return;
            }
            // All of one pass, before anybody is asked for again: they are the scheduler's already.
            grants.iter().for_each(|grant| self.record_grant(grant.task, grant.device, t));
            grants.iter().for_each(|grant| self.reconsider_worker_of(grant.task, t));
        }
    }
}

/// Memory, managed memory, blocks and threads per block.
type Sizes = (Bytes, Bytes, u64, u64);

fn sizes(need: &Need) -> Sizes {
    (need.mem(), need.managed(), need.blocks(), need.threads().into())
}

/// The answer to a begin whose job is over.
fn job_ended(nonce: u64) -> Reply {
    Reply::Refused(Refused { nonce, code: Code::JobEnded, need: 0, most: 0, why: Text::cut(JOB_ENDED) })
}

/// The scheduler's refusal as an answer.
pub(super) fn refusal(why: &Refusal) -> Placed {
    let (need, most) = match why {
        Refusal::TooLarge { need, largest } | Refusal::NotBelow { need, largest } => (need.0, largest.0),
        Refusal::AboveDevice { need, device } => (need.0, device.0),
        Refusal::Begun(_) | Refusal::Unknown(_) => (0, 0),
    };
    Placed::Refused { code: Code::TooLarge, need, most, why: why.to_string() }
}
