//! The run itself.

use std::collections::{HashSet, VecDeque};

use crate::event::RunEvent;
use crate::policy::{Policy, Start};
use crate::sim::job::{Job, JobError, Phase};
use crate::sim::meter::Meter;
use crate::sim::summary::{JobTimes, Outcome};
use task_sched::DeviceId;
use task_sched::Event as Sched;
use task_sched::Pool;
use task_sched::{Among, Ask, Need, TaskId, WorkerAsk, WorkerId};
use task_sched::{Answer, Order, Scheduler};

/// Devices and rules under which jobs run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The devices in the policy's order, without promises.
    pub pool: Pool,
    /// Most jobs that run at a time.
    pub workers: usize,
    /// The queue's order.
    pub order: Order,
}

/// A run that could not begin or could not end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stuck {
    /// A job that no run could follow.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The policy left jobs waiting although nothing else would happen.
    #[error("{policy} leaves {} waiting for ever, with {} on {}", geometry::counted(*waiting, "job"), geometry::counted(*workers, "worker"), geometry::counted(*devices, "device"))]
    Waiting {
        /// The policy.
        policy: &'static str,
        /// Jobs left.
        waiting: usize,
        /// The limit of workers.
        workers: usize,
        /// How many devices there are.
        devices: usize,
    },
}

/// Times closer than this are one time, seconds.
const INSTANT: f64 = 1e-9;

/// A job with a worker.
struct Active {
    job: usize,
    /// The phase under way.
    phase: usize,
    /// Seconds left of it at full speed.
    left: f64,
    dev: Option<DeviceId>,
    task: Option<SimulatedTask>,
}

struct SimulatedTask {
    id: TaskId,
    seconds: f64,
    demand: f64,
    begun: f64,
    granted: Option<(f64, DeviceId)>,
}

struct Engine<'a> {
    jobs: &'a [Job],
    workers: usize,
    sched: Scheduler,
    now: f64,
    next_task: u64,
    /// Jobs that arrived and have no worker, in order.
    queue: VecDeque<usize>,
    /// Jobs that start before waiting tasks: isolated jobs, if the policy puts them first.
    isolated: VecDeque<usize>,
    /// By job.
    active: Vec<Active>,
    times: Vec<Option<JobTimes>>,
    events: Vec<RunEvent>,
    meter: Meter,
}

/// Runs `jobs` to their end.
///
/// At every free and end, in this order: isolated jobs start, waiting tasks are tried, other jobs start while workers
/// remain. Within each, jobs come by arrival, those of one time in the order of `jobs`. Policies without
/// [`Policy::isolated_first`] treat all jobs alike.
///
/// # Errors
///
/// Where a job is not legal, or jobs remain that the policy never starts.
pub fn simulate(setup: &Setup, jobs: &[Job], policy: Box<dyn Policy>) -> Result<Outcome, Stuck> {
    let mut ids = HashSet::new();
    for job in jobs {
        job.check()?;
        if !ids.insert(job.id) {
            return Err(JobError::Twice { job: job.id.0 }.into());
        }
    }
    let name = policy.name();
    let node = RunEvent::node(name, setup.order, &setup.pool, Some(setup.workers));
    let mut engine = Engine {
        jobs,
        workers: setup.workers,
        sched: Scheduler::new(setup.pool.clone(), policy, setup.order),
        now: 0.0,
        next_task: 0,
        queue: VecDeque::new(),
        isolated: VecDeque::new(),
        active: Vec::new(),
        times: vec![None; jobs.len()],
        events: vec![node],
        meter: Meter::default(),
    };
    engine.run();
    let waiting = engine.times.iter().filter(|times| times.is_none()).count();
    if waiting > 0 {
        let devices = setup.pool.numbers();
        return Err(Stuck::Waiting { policy: name, waiting, workers: setup.workers, devices });
    }
    Ok(engine.outcome())
}

impl Engine<'_> {
    fn run(&mut self) {
        let mut arrivals: Vec<usize> = (0..self.jobs.len()).collect();
        arrivals.sort_by(|a, b| self.jobs[*a].arrival.total_cmp(&self.jobs[*b].arrival));
        let mut arrivals: VecDeque<usize> = arrivals.into();
        loop {
            let next_arrival = arrivals.front().map(|job| self.jobs[*job].arrival - self.now);
            let next_end = self.remaining().map(|(_, seconds)| seconds).min_by(f64::total_cmp);
            let Some(dt) = [next_arrival, next_end].into_iter().flatten().min_by(f64::total_cmp) else {
                return;
            };
            let ended = self.advance(dt.max(0.0));
            while let Some(job) = arrivals.front().copied() {
                if self.jobs[job].arrival > self.now + INSTANT {
                    break;
                }
                arrivals.pop_front();
                // A job that will be refused must not stand between a free and the grants that it allows.
                let is_first = self.jobs[job].isolated
                    && self.sched.policy().isolated_first()
                    && self.sched.refuses(&self.ask(job)).is_none();
                if is_first { &mut self.isolated } else { &mut self.queue }.push_back(job);
            }
            for job in ended {
                self.phase_over(job);
            }
            self.settle();
        }
    }

    /// Demand of the tasks on each device.
    fn demands(&self) -> Vec<f64> {
        let mut demands = vec![0.0; self.sched.pool().numbers()];
        for task in self.active.iter().filter_map(|a| a.task.as_ref()) {
            if let Some((_, dev)) = task.granted {
                demands[dev.0] += task.demand;
            }
        }
        demands
    }

    /// Seconds until each phase under way ends if nothing changes; none for a task that waits.
    fn remaining(&self) -> impl Iterator<Item = (usize, f64)> {
        let demands = self.demands();
        self.active.iter().enumerate().filter_map(move |(i, active)| {
            let slower = match &active.task {
                None => 1.0,
                Some(task) => 1.0 + (demands[task.granted?.1.0] - task.demand).max(0.0),
            };
            Some((i, active.left * slower))
        })
    }

    /// Lets `dt` seconds pass. Returns the jobs whose phase ends then, in their order.
    fn advance(&mut self, dt: f64) -> Vec<usize> {
        self.meter.pass(dt, self.sched.pool(), &self.demands());
        let remaining: Vec<(usize, f64)> = self.remaining().collect();
        let mut ended = Vec::new();
        for (i, seconds) in remaining {
            let active = &mut self.active[i];
            if seconds <= dt + INSTANT {
                active.left = 0.0;
                ended.push(active.job);
            } else {
                active.left *= 1.0 - dt / seconds;
            }
        }
        ended.sort_unstable();
        self.now += dt;
        ended
    }

    fn at(&self, job: usize) -> Option<usize> {
        self.active.iter().position(|a| a.job == job)
    }

    /// The phase that a job was in is over: frees its task and goes on to the next phase or the end.
    fn phase_over(&mut self, job: usize) {
        let Some(i) = self.at(job) else { return };
        let task = self.active[i].task.take();
        self.active[i].phase += 1;
        let is_last = self.active[i].phase >= self.jobs[job].phases.len();
        if let Some(task) = task {
            self.free(job, &task);
        }
        self.enter(job);
        if is_last {
            self.settle();
        }
    }

    fn free(&mut self, job: usize, task: &SimulatedTask) {
        let freed = self.sched.free(task.id);
        debug_assert!(freed.is_ok(), "the simulator frees what it began");
        self.events.push(RunEvent::Sched(Sched::Free { t: self.now, task: task.id }));
        if let Some((granted, _)) = task.granted {
            self.meter.task(job, granted - task.begun, self.now - granted, task.seconds);
        }
        self.serve_first();
    }

    /// Begins the phase that a job has come to.
    fn enter(&mut self, job: usize) {
        let Some(i) = self.at(job) else { return };
        match self.jobs[job].phases.get(self.active[i].phase).copied() {
            None => self.end(job, false),
            Some(Phase::Host(seconds)) => self.active[i].left = seconds,
            Some(Phase::Gpu { seconds, need, demand }) => self.begin(job, seconds, need, demand),
        }
    }

    fn begin(&mut self, job: usize, seconds: f64, need: Need, demand: f64) {
        let Some(i) = self.at(job) else { return };
        let (t, spec, id) = (self.now, &self.jobs[job], TaskId(self.next_task));
        self.next_task += 1;
        let (bound, isolated) = (self.active[i].dev, spec.isolated);
        let ask = Ask {
            task: id,
            job: spec.id,
            need,
            job_mem: spec.mem,
            bound,
            among: Among::ALL,
            isolated,
            holds: false,
        };
        let answer = self.sched.begin(ask);
        self.note_layout();
        self.events.push(RunEvent::Begin { t, task: id, job: spec.id, need });
        let granted = match answer {
            Answer::Granted(dev) => {
                self.events.push(RunEvent::Sched(Sched::Grant { t, task: id, dev }));
                Some((t, dev))
            }
            Answer::Waits => {
                self.events.push(RunEvent::Sched(Sched::Wait { t, task: id }));
                None
            }
            Answer::Refused(why) => {
                self.events.push(RunEvent::Sched(Sched::Refuse { t, task: id, why: why.to_string() }));
                return self.end(job, true);
            }
            Answer::Crashed => {
                self.events.push(RunEvent::Crash { t, task: id });
                return self.end(job, true);
            }
        };
        self.active[i].left = seconds;
        self.active[i].task = Some(SimulatedTask { id, seconds, demand, begun: t, granted });
    }

    fn end(&mut self, job: usize, crashed: bool) {
        self.active.retain(|a| a.job != job);
        let spec = &self.jobs[job];
        self.sched.end(spec.id);
        self.events.push(RunEvent::Sched(Sched::End { t: self.now, job: spec.id }));
        self.over(job, crashed);
    }

    fn over(&mut self, job: usize, crashed: bool) {
        let spec = &self.jobs[job];
        let times = JobTimes { job: spec.id, arrival: spec.arrival, end: self.now, crashed };
        self.times[job] = Some(times);
    }

    /// Starts and grants until nothing more changes: a job that crashes at once makes room for another.
    fn settle(&mut self) {
        loop {
            let before = self.events.len();
            self.serve_first();
            self.start_others();
            if self.events.len() == before {
                return;
            }
        }
    }

    /// Instances are made before what they were made for.
    fn note_layout(&mut self) {
        if self.sched.take_remade() {
            self.events.push(RunEvent::layout(self.now, self.sched.pool()));
        }
    }

    fn grant_waiting(&mut self) {
        let grants = self.sched.retry();
        self.note_layout();
        for grant in grants {
            self.events.push(RunEvent::Sched(Sched::Grant {
                t: self.now,
                task: grant.task,
                dev: grant.device,
            }));
            let mut tasks = self.active.iter_mut().filter_map(|a| a.task.as_mut());
            if let Some(task) = tasks.find(|task| task.id == grant.task) {
                task.granted = Some((self.now, grant.device));
            }
        }
    }

    /// Gives devices to isolated jobs, then to waiting tasks. The first begins of those jobs come after, so that the grants
    /// of a free follow it.
    fn serve_first(&mut self) {
        let mut started = Vec::new();
        loop {
            self.start_isolated(&mut started);
            self.grant_waiting();
            // A job without phases leaves its device at once.
            let is_empty = |job: &usize| self.jobs[*job].phases.is_empty();
            let Some(at) = started.iter().position(is_empty) else { break };
            let job = started.remove(at);
            self.enter(job);
        }
        started.into_iter().for_each(|job| self.enter(job));
    }

    /// Isolated jobs need a device without tasks: without one, none is asked.
    fn start_isolated(&mut self, started: &mut Vec<usize>) {
        if !self.isolated.is_empty() {
            let mut queue = std::mem::take(&mut self.isolated);
            let has_room = |engine: &Self| engine.sched.pool().has_room();
            self.start_jobs(&mut queue, has_room, |_, job| started.push(job));
            self.isolated = queue;
        }
    }

    fn start_others(&mut self) {
        let mut queue = std::mem::take(&mut self.queue);
        self.start_jobs(&mut queue, |_| true, Self::enter);
        self.queue = queue;
    }

    /// Starts jobs in order while workers remain and `may` says so, and does `then` with each.
    fn start_jobs(
        &mut self,
        queue: &mut VecDeque<usize>,
        may: impl Fn(&Self) -> bool,
        mut then: impl FnMut(&mut Self, usize),
    ) {
        let mut at = 0;
        while at < queue.len() && self.active.len() < self.workers && may(self) {
            if self.start(queue[at], &mut then) {
                queue.remove(at);
            } else {
                at += 1;
            }
        }
    }

    fn ask(&self, job: usize) -> WorkerAsk {
        let Job { id, mem, isolated, .. } = self.jobs[job];
        WorkerAsk { job: id, mem, isolated }
    }

    /// Starts a job; true if it left the queue.
    fn start(&mut self, job: usize, then: &mut impl FnMut(&mut Self, usize)) -> bool {
        let ask = self.ask(job);
        let arrival = self.jobs[job].arrival;
        if let Some(why) = self.sched.refuses(&ask) {
            self.refuse(job, ask.job, &why.to_string());
            return true;
        }
        let dev = match self.sched.start(&ask) {
            Start::Later => return false,
            Start::Anywhere => None,
            Start::On(dev) => Some(dev),
        };
        self.note_layout();
        let isolated = ask.isolated;
        self.events.push(RunEvent::Sched(Sched::Job { t: self.now, job: ask.job, arrival, isolated, dev }));
        self.active.push(Active { job, phase: 0, left: 0.0, dev, task: None });
        then(self, job);
        true
    }

    /// A job that no device could ever hold: its largest task is refused in its name.
    fn refuse(&mut self, job: usize, id: WorkerId, why: &str) {
        let t = self.now;
        let Job { arrival, isolated, .. } = self.jobs[job];
        self.events.push(RunEvent::Sched(Sched::Job { t, job: id, arrival, isolated, dev: None }));
        let largest = self.jobs[job].phases.iter().filter_map(|phase| match phase {
            Phase::Gpu { need, .. } => Some(*need),
            Phase::Host(_) => None,
        });
        if let Some(need) = largest.max_by_key(Need::mem) {
            let task = TaskId(self.next_task);
            self.next_task += 1;
            self.events.push(RunEvent::Begin { t, task, job: id, need });
            self.events.push(RunEvent::Sched(Sched::Refuse { t, task, why: why.to_owned() }));
        }
        self.events.push(RunEvent::Sched(Sched::End { t, job: id }));
        self.over(job, true);
    }

    fn outcome(self) -> Outcome {
        let jobs: Vec<JobTimes> = self.times.into_iter().flatten().collect();
        let summary = self.meter.summary(&jobs);
        Outcome { events: self.events, jobs, summary }
    }
}
