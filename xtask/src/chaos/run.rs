//! Plays a plan on a cluster and looks at it in between.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::config::Templates;
use lab::{Cluster, User};

use super::Chaos;
use super::check::{Devices, Finding, Patience, disagreements, leftovers, two_owners};
use super::outcome::{Outcome, print};
use super::plan::{Event, Fault, Order, Plan};
use super::seen::report::{Reports, SCRIPT};
use super::seen::{Seen, Task, look, scan};
use super::strike::{Wound, mend, strike};
use super::submit::Submission;
use crate::cluster::{absolute, guardian};
use crate::command::{TaskError, at};

/// How long a change may take: slurmd's health check, which gives back what a forgotten job had, runs every minute, and
/// slurmctld repeats to a returned slurmd what to end after 65 s.
const SETTLE: Duration = Duration::from_secs(150);

/// How long all jobs may take to end once no more are submitted and everything is mended.
const REST: Duration = Duration::from_secs(400);

/// A prolog that has met a fault may end this long after the fault.
const LATE: Duration = Duration::from_secs(60);

/// After this time a line says what is waited for.
const SLOW: Duration = Duration::from_secs(45);

/// Between two looks at the jobs' processes.
const SAMPLE: Duration = Duration::from_millis(300);

/// The driver takes half of the real one's time: prologs and epilogs are long enough to be met.
const TIME_SCALE: f64 = 0.5;

/// Room for the journal of every job that a node can have.
const STATE_KIB: u32 = 2048;

/// A run in progress.
pub(super) struct Run<'a> {
    chaos: &'a Chaos,
    pub(super) cluster: Cluster,
    pub(super) outcome: Outcome,
    pub(super) orders: Vec<Order>,
    pub(super) reports: Reports,
    pub(super) devices: Devices,
    /// The fault in force, until everything has settled after it.
    pub(super) fault: Option<Fault>,
    /// Those since the last rest, and when each was mended.
    pub(super) past: Vec<(Fault, Instant)>,
    wound: Wound,
    /// Until when a daemon that does not run is our doing.
    daemon_is_ours: bool,
    /// How much of each log has been read.
    pub(super) read: BTreeMap<PathBuf, usize>,
    /// Jobs without a process, and since when.
    pub(super) phantoms: BTreeMap<u32, Instant>,
    /// The next job is cancelled so many milliseconds after its submission.
    pub(super) cancel_young: Option<u32>,
    pub(super) submissions: Vec<Submission>,
    /// Processes that the driver knows to use a GPU: id and start time.
    pub(super) on_gpus: BTreeSet<(i32, u64)>,
    /// Jobs that have failed, so that each is told once.
    pub(super) failed: BTreeSet<(u32, Option<u32>)>,
    /// Orders whose jobs began on a node that was left to Slurm.
    pub(super) unmanaged: BTreeSet<u32>,
    /// Nothing has happened since the last rest.
    is_rested: bool,
}

/// Runs the plan of a seed. False if a rule was broken; the cluster's files then stay.
pub(super) fn run(chaos: &Chaos) -> Result<bool, TaskError> {
    let cluster = start(chaos)?;
    let reports = Reports::new(&cluster.layout().jobs());
    let mut run = Run {
        chaos,
        cluster,
        outcome: Outcome::new(),
        orders: Vec::new(),
        reports,
        devices: Devices::default(),
        fault: None,
        past: Vec::new(),
        wound: Wound::default(),
        daemon_is_ours: false,
        read: BTreeMap::new(),
        phantoms: BTreeMap::new(),
        cancel_young: None,
        submissions: Vec::new(),
        on_gpus: BTreeSet::new(),
        failed: BTreeSet::new(),
        unmanaged: BTreeSet::new(),
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

fn start(chaos: &Chaos) -> Result<Cluster, TaskError> {
    let mut templates = Templates::shipped()?;
    templates.time_scale = TIME_SCALE;
    templates.slurm = templates.slurm.replace("Debug=verbose", "Debug=debug");
    let mut builder = Cluster::builder()
        .templates(templates)
        .slurm(chaos.slurm)
        .guardian(guardian()?)
        .backup()
        .slurm_conf("MessageTimeout=30\nKillWait=5\nMinJobAge=300");
    builder = builder.small_state(STATE_KIB);
    if let Some(dir) = &chaos.dir {
        builder = builder.dir(&absolute(dir)?);
    }
    let cluster = builder.start()?;
    let script = cluster.layout().jobs().join("chaos.sh");
    at(&script, fs::write(&script, format!("#!/bin/sh{SCRIPT}")))?;
    at(&script, fs::set_permissions(&script, PermissionsExt::from_mode(0o755)))?;
    Ok(cluster)
}

impl Run<'_> {
    fn play(&mut self) -> Result<(), TaskError> {
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
        self.outcome.faults += 1;
        if self.chaos.without.iter().any(|name| name == fault.name()) {
            return self.outcome.say(&format!("fault {number}: {fault}: left out"));
        }
        self.daemon_is_ours = matches!(fault, Fault::Kill(_) | Fault::Restart(_) | Fault::Takeover { .. });
        if let Fault::CancelYoung(ms) = fault {
            self.cancel_young = Some(ms);
        }
        self.wound = strike(&mut self.cluster, &fault)?;
        let met = if self.wound.met.is_empty() { String::new() } else { format!(": {}", self.wound.met) };
        self.outcome.say(&format!("fault {number}: {fault}{met}"))?;
        self.fault = Some(fault);
        Ok(())
    }

    fn mend(&mut self) -> Result<(), TaskError> {
        // What was written while the fault was in force is read while it is.
        self.promises()?;
        if let Some(fault) = &self.fault {
            mend(&mut self.cluster, fault, &self.wound)?;
            self.past.push((fault.clone(), Instant::now()));
        }
        self.daemon_is_ours = false;
        self.answers(true)
    }

    /// Waits, and looks at the jobs' processes meanwhile.
    fn watch(&mut self, time: Duration) -> Result<(), TaskError> {
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

    /// What must hold at every moment.
    fn sample(&mut self) -> Result<(), TaskError> {
        let (tasks, ..) = scan(&self.cluster);
        self.use_gpus(&tasks)?;
        for finding in two_owners(&tasks, &self.devices) {
            // A task may have ended before the other began, while /proc was read.
            let alive: Vec<Task> = tasks.iter().filter(|task| is_alive(task)).cloned().collect();
            if two_owners(&alive, &self.devices).contains(&finding) {
                self.violation(finding)?;
            }
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

    /// The fault in force, and those whose effects may still come.
    pub(super) fn recent(&self) -> impl Iterator<Item = &Fault> + Clone {
        let late = self.past.iter().filter(|(_, mended)| mended.elapsed() < LATE);
        late.map(|(fault, _)| fault).chain(&self.fault)
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

    fn settle(
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

    /// Lets all jobs end, and looks for what they left.
    fn rest(&mut self) -> Result<(), TaskError> {
        self.fault = None;
        let (begin, mut left, mut told) = (Instant::now(), Vec::new(), Duration::ZERO);
        while begin.elapsed() < REST {
            let seen = look(&self.cluster)?;
            self.devices.learn(&seen);
            self.jobs(&seen)?;
            self.help(&seen)?;
            left = seen.jobs.into_iter().filter(|job| job.state == "PENDING" || job.is_there()).collect();
            if left.is_empty() {
                break;
            }
            if begin.elapsed() > told + SLOW {
                told = begin.elapsed();
                let jobs: Vec<String> = left
                    .iter()
                    .take(4)
                    .map(|job| format!("{} {} ({})", job.id, job.state, job.reason))
                    .collect();
                self.outcome.say(&format!("  {} jobs left: {}", left.len(), jobs.join(", ")))?;
            }
            self.watch(Duration::from_millis(1_000))?;
        }
        for job in &left {
            let what = format!("{} ({}) for {} s", job.state, job.reason, REST.as_secs());
            self.violation(Finding::new(
                "job does not end",
                format!("job {} (order {:?})", job.id, job.order),
                what,
            ))?;
            self.cluster.run(User::Root, "scancel", &[&job.id.to_string()])?;
        }
        self.settle(SETTLE, |seen, devices| {
            let mut found = disagreements(seen, devices);
            found.extend(leftovers(seen));
            found
        })?;
        self.logs()?;
        self.doctor()?;
        let waited = begin.elapsed().as_secs();
        self.past.clear();
        let (jobs, faults) = (self.outcome.jobs, self.outcome.faults);
        self.outcome.say(&format!("rest after {waited} s: {jobs} jobs and {faults} faults so far"))
    }

    /// Bugs that a plugin has noticed itself.
    fn logs(&mut self) -> Result<(), TaskError> {
        let nodes: Vec<String> = self.cluster.nodes().iter().map(|node| format!("slurmd-{node}")).collect();
        for daemon in nodes.into_iter().chain(["slurmctld".to_owned()]) {
            let path = self.cluster.layout().log(&daemon);
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned();
            let bad = |line: &&str| line.contains("bug in this plugin") || line.contains("panicked");
            let lines: Vec<String> = text.lines().filter(bad).map(str::to_owned).collect();
            for line in lines {
                self.violation(Finding::new("bug logged", format!("{daemon}: {line}"), "in its log"))?;
            }
        }
        Ok(())
    }

    /// The last word is Tessera's own, after everything else has been looked at without it.
    fn doctor(&mut self) -> Result<(), TaskError> {
        for node in self.cluster.nodes().to_vec() {
            let mut command = self.cluster.command_on(&node, User::Root, "tessera")?;
            let done = lab::command::run(command.arg("doctor"))?;
            if done.code != Some(0) {
                let subject = format!("{node} after {} faults", self.outcome.faults);
                self.violation(Finding::new("doctor", subject, format!("{}{}", done.stdout, done.stderr)))?;
            }
        }
        Ok(())
    }
}

/// Whether a task still is the same process.
fn is_alive(task: &Task) -> bool {
    lab::process::Started::of("task", task.pid).is_some_and(|now| now.since == task.since && now.is_alive())
}
