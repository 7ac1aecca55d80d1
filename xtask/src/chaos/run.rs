//! Plays a plan on a cluster and looks at it in between.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::Cluster;
use slurm_releases::Release;

use super::Chaos;
use super::check::{Devices, Finding, LeftOut, Patience, crowded, disagreements, two_owners};
use super::drains::Judged;
use super::mended::Mended;
use super::outcome::{ChaosOutcome, print};
use super::plan::{Event, Fault, Order, Plan};
use super::seen::report::Reports;
use super::seen::{Seen, look, scan};
use super::start::start;
use super::strike::{mend, strike};
use super::submission::Submission;
use super::wound::Wound;
use crate::command::TaskError;

/// How long a change may take: slurmd's health check, which gives back what a forgotten job had, runs every minute, and
/// slurmctld repeats to a returned slurmd what to end after 65 s.
pub(super) const SETTLE: Duration = Duration::from_secs(150);

/// After this time a line says what is waited for.
pub(super) const SLOW: Duration = Duration::from_secs(45);

/// Between two looks at the jobs' processes.
const SAMPLE: Duration = Duration::from_millis(300);

/// A run in progress.
pub(super) struct ChaosRun<'a> {
    chaos: &'a Chaos,
    pub(super) cluster: Cluster,
    pub(super) outcome: ChaosOutcome,
    pub(super) orders: Vec<Order>,
    pub(super) reports: Reports,
    pub(super) devices: Devices,
    /// The fault in force, until everything has settled after it.
    pub(super) fault: Option<Fault>,
    /// Faults since the last rest, and when each was mended.
    pub(super) past: Vec<(Fault, Mended)>,
    wound: Wound,
    /// The GPU that is unhealthy.
    pub(super) sick: Option<LeftOut>,
    /// Until when a daemon that does not run is our doing.
    daemon_is_ours: bool,
    /// How long the second slurmctld's log was when the last two faults began.
    pub(super) second_log: [usize; 2],
    pub(super) drains: Judged,
    /// How much of each log has been read.
    pub(super) read: BTreeMap<PathBuf, usize>,
    /// Since when jobs were seen to wait for Slurm's delay after a requeue.
    pub(super) delayed: BTreeMap<u32, Instant>,
    /// Jobs without a process, and since when.
    pub(super) phantoms: BTreeMap<u32, Instant>,
    /// The next job is cancelled so many milliseconds after its submission.
    pub(super) cancel_young: Option<u32>,
    pub(super) submissions: Vec<Submission>,
    /// Processes that the driver knows to use a GPU: id and start time.
    pub(super) on_gpus: BTreeSet<(i32, u64)>,
    /// Nodes and numbers of the GPUs that each job has reported, by job and order.
    pub(super) gpus: BTreeMap<(u32, u32), BTreeSet<(String, u32)>>,
    /// Jobs that have failed, so that each is told once.
    pub(super) failed: BTreeSet<(u32, Option<u32>)>,
    /// Nothing has happened since the last rest.
    is_rested: bool,
}

/// Runs the plan of a seed. False if a rule was broken; the cluster's files then stay.
pub(super) fn run(chaos: &Chaos) -> Result<bool, TaskError> {
    let cluster = start(chaos)?;
    let reports = Reports::new(&cluster.layout().jobs());
    let mut run = ChaosRun {
        chaos,
        cluster,
        outcome: ChaosOutcome::new(),
        orders: Vec::new(),
        reports,
        devices: Devices::default(),
        fault: None,
        past: Vec::new(),
        wound: Wound::default(),
        sick: None,
        daemon_is_ours: false,
        second_log: [0; 2],
        drains: Judged::default(),
        read: BTreeMap::new(),
        delayed: BTreeMap::new(),
        phantoms: BTreeMap::new(),
        cancel_young: None,
        submissions: Vec::new(),
        on_gpus: BTreeSet::new(),
        gpus: BTreeMap::new(),
        failed: BTreeSet::new(),
        is_rested: false,
    };
    run.outcome.say(&format!(
        "cluster of Slurm {} in {}",
        chaos.slurm,
        run.cluster.layout().dir().display()
    ))?;
    let played = run.play();
    let clean = played.is_ok() && run.outcome.is_clean();
    if !clean {
        run.cluster.keep_files();
    }
    played?;
    print(&run.outcome.summary(chaos))?;
    Ok(clean)
}

impl ChaosRun<'_> {
    /// Returns the Slurm that is hurt.
    pub(super) fn slurm(&self) -> Release {
        self.chaos.slurm
    }

    fn play(&mut self) -> Result<(), TaskError> {
        // A job may report what it has before the first look after a fault.
        self.devices.learn(&look(&self.cluster)?);
        if self.chaos.forge {
            self.forge()?;
        }
        let begin = Instant::now();
        let limit = Duration::from_secs(self.chaos.minutes * 60);
        for step in Plan::new(self.chaos.seed) {
            let is_one_too_many = matches!(&step.event, Event::Submit(order) if self.chaos.jobs.is_some_and(|n| order.number >= n));
            // A fault that has begun is mended and looked at.
            if self.fault.is_none() && (is_one_too_many || begin.elapsed() >= limit) {
                break;
            }
            if is_one_too_many {
                continue;
            }
            self.event(step.event)?;
            self.watch(Duration::from_millis(step.then_ms.into()))?;
        }
        if self.is_rested { Ok(()) } else { self.rest() }
    }

    fn event(&mut self, event: Event) -> Result<(), TaskError> {
        self.is_rested = event == Event::Rest;
        match event {
            Event::Submit(order) => self.submit(order),
            Event::Strike(number, fault) => self.strike(number, fault),
            Event::Mend => self.mend(),
            Event::Check => self.check(),
            Event::Rest => self.rest(),
        }
    }

    fn strike(&mut self, number: u32, fault: Fault) -> Result<(), TaskError> {
        if self.chaos.without.iter().any(|name| name == fault.name()) {
            return self.outcome.say(&format!("fault {number}: {fault}: left out"));
        }
        self.outcome.faults += 1;
        self.daemon_is_ours = matches!(fault, Fault::Kill(_) | Fault::Restart(_) | Fault::Takeover { .. });
        if let Fault::CancelYoung(ms) = fault {
            self.cancel_young = Some(ms);
        }
        if let Fault::KillBroker(node, _) = fault {
            self.meet_seats(node.name(), number)?;
        }
        if let Fault::FullRunDir(node, _) = fault {
            self.meet_share(node.name(), number)?;
        }
        self.second_log = [self.second_log[1], self.read_second_log().len()];
        let fault = self.before_sickness(fault)?;
        let struck = strike(&mut self.cluster, &fault);
        if struck.is_err() {
            self.outcome.say(&format!("fault {number}: {fault}: the run ends here"))?;
        }
        self.wound = struck?;
        let met = if self.wound.met.is_empty() { String::new() } else { format!(": {}", self.wound.met) };
        self.outcome.say(&format!("fault {number}: {fault}{met}"))?;
        self.fault = Some(fault);
        self.has_sickened()
    }

    fn mend(&mut self) -> Result<(), TaskError> {
        // What was written while the fault was in force is read while it is.
        self.promises()?;
        if let Some(problem) = self.wound.idle.as_ref().map(|idle| idle.problem()).transpose()?.flatten() {
            let what = "idle connections keep others from it";
            self.violation(Finding::new("exporter does not answer", what, problem))?;
        }
        self.judge_sickness()?;
        if let Some(fault) = &self.fault {
            let note = mend(&mut self.cluster, fault, &mut self.wound)?;
            self.past.push((fault.clone(), Mended::now()));
            note.into_iter().try_for_each(|what| self.outcome.stock(what))?;
        }
        self.has_recovered()?;
        self.daemon_is_ours = false;
        self.answers(true)
    }

    /// Waits, and looks at the jobs' processes meanwhile.
    pub(super) fn watch(&mut self, time: Duration) -> Result<(), TaskError> {
        let begin = Instant::now();
        loop {
            self.answers(false)?;
            self.sample()?;
            let left = time.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            sleep(left.min(SAMPLE));
        }
    }

    /// Checks what must hold at every moment.
    fn sample(&mut self) -> Result<(), TaskError> {
        let tasks = scan(&self.cluster).tasks;
        self.use_gpus(&tasks)?;
        if let Some(sick) = &mut self.sick {
            sick.note(&tasks, &self.devices);
        }
        let memory = |order: u32| {
            let order = self.orders.iter().find(|known| known.number == order)?;
            order.kind().promise.part_gb()
        };
        let mut found = two_owners(&tasks, &self.devices);
        found.extend(crowded(&tasks, &self.devices, memory));
        for finding in found {
            self.violation(finding)?;
        }
        self.cluster.reap();
        if !self.daemon_is_ours {
            self.daemons()?;
        }
        Ok(())
    }

    /// A daemon that ended by itself is a violation, and is started again.
    fn daemons(&mut self) -> Result<(), TaskError> {
        let nodes = self.cluster.nodes().iter().cloned().map(lab::Daemon::Slurmd);
        let all: Vec<lab::Daemon> = nodes.chain([lab::Daemon::Slurmctld, lab::Daemon::Backup]).collect();
        for daemon in all {
            if self.cluster.process(&daemon).is_none() {
                self.violation(Finding::new("daemon ended", daemon.name(), "nobody ended it"))?;
                self.cluster.start(&daemon)?;
            }
        }
        Ok(())
    }

    pub(super) fn violation(&mut self, finding: Finding) -> Result<(), TaskError> {
        self.outcome.violation(finding, &self.cluster.layout().at("log"))
    }

    /// Looks until nothing that was wrong at first still is. Meanwhile an administrator is at work.
    fn check(&mut self) -> Result<(), TaskError> {
        self.settle(SETTLE, disagreements)?;
        self.fault = None;
        Ok(())
    }

    pub(super) fn settle(
        &mut self,
        limit: Duration,
        rules: fn(&Seen, &Devices) -> Vec<Finding>,
    ) -> Result<(), TaskError> {
        let (begin, mut patience, mut told) = (Instant::now(), Patience::default(), Duration::ZERO);
        loop {
            let seen = look(&self.cluster)?;
            self.devices.learn(&seen);
            self.jobs(&seen)?;
            self.help(&seen)?;
            let left: Vec<Finding> =
                patience.look(rules(&seen, &self.devices)).into_iter().cloned().collect();
            if left.is_empty() {
                if begin.elapsed() > Duration::from_secs(20) {
                    self.outcome.say(&format!("  settled after {} s", begin.elapsed().as_secs()))?;
                }
                return Ok(());
            }
            if begin.elapsed() > told + SLOW {
                told = begin.elapsed();
                let first = left.first().map(ToString::to_string).unwrap_or_default();
                self.outcome.say(&format!("  {} findings still, such as: {first}", left.len()))?;
            }
            if begin.elapsed() > limit {
                left.into_iter().try_for_each(|finding| self.violation(finding))?;
                return Ok(());
            }
            self.watch(Duration::from_millis(700))?;
        }
    }
}
