//! A round: a slurmctld from its start without any state to its end.

use std::fs;
use std::time::{Duration, Instant};

use error_chain::with_causes;
use lab::command::{PATIENCE, wait_for};
use lab::fleet::{Controller, Fleet, PARTITIONS};
use lab::{HarnessError, User};

use super::super::scheduler::{processor_us, thread_us};
use super::client::Client;
use super::counters::Counters;
use super::figures::Figures;
use super::jobs::Jobs;
use super::{Size, node_words};
use crate::command::TaskError;

/// How schedulers go while jobs are submitted: hardly. Each submission has its own test.
const RESTING: &str =
    "SchedulerParameters=bf_max_job_test=1000,bf_interval=3600,bf_max_time=600,sched_interval=60,bf_continue";
/// Jobs of a partition that backfill tests in each cycle.
pub(super) const FEW: usize = 60;
/// More than answers are kept for each node.
pub(super) const MANY: usize = 300;

/// How they go while they are measured.
pub(super) fn busy(of_partition: usize) -> String {
    format!(
        "SchedulerParameters=bf_max_job_test=1000,bf_max_job_part={of_partition},bf_interval=2,bf_max_time=600,sched_interval=4,bf_continue"
    )
}

/// slurmctld 24.11 defers connections above 50 at a time: a registration can get lost, and it asks that node again after five minutes.
const UNTIL_REGISTERED: Duration = Duration::from_secs(900);

/// No slurmd sees the number of a job twice: it would take the second job for the first.
const JOBS_PER_ROUND: usize = 1_000_000;

pub(super) struct Round<'a> {
    pub(super) fleet: &'a mut Fleet,
    pub(super) client: &'a Client,
    pub(super) controller: Controller,
    /// Among all rounds of both controllers.
    pub(super) number: usize,
    /// The round or turn to which values belong.
    pub(super) sample: usize,
    pub(super) size: Size,
    pub(super) figures: &'a mut Figures,
}

impl Round<'_> {
    pub(super) fn run(mut self) -> Result<(), TaskError> {
        self.begin()?;
        let running = self.fill()?;
        self.submit()?;
        self.queries("at rest")?;
        self.commands()?;
        self.reconfigure()?;
        self.restart(running.len())?;
        self.schedulers()?;
        if self.controller == Controller::Tessera {
            self.same_jobs(running.len())?;
        } else {
            // What follows is of a slurmctld that has just started, as Tessera's is then.
            self.take_over(Controller::Stock, FEW, running.len())?;
        }
        self.under_load()?;
        self.churn(&running)?;
        self.memory("at the end")?;
        self.fleet.stop()?;
        self.no_complaints()
    }

    /// Measures backfill of these kinds alone, as [`Self::same_jobs`] does.
    pub(super) fn run_same_jobs(mut self, only: &[&str]) -> Result<(), TaskError> {
        self.begin()?;
        let running = self.fill()?.len();
        self.submit()?;
        self.same_cycles(running, only)?;
        self.fleet.stop()?;
        self.no_complaints()
    }

    pub(super) fn tell(&self, what: &str) {
        eprintln!("scale: {}, {what}", self.controller);
    }

    pub(super) fn add(&mut self, case: &str, unit: &'static str, value: f64) {
        self.figures.add((self.controller, self.sample), case, unit, value);
    }

    pub(super) fn counters(&self) -> Result<Counters, TaskError> {
        let text = self.fleet.run("sdiag", &[])?;
        Counters::read(&text).ok_or_else(|| TaskError::Other(format!("sdiag prints no counters: {text}")))
    }

    pub(super) fn reset_counters(&self) -> Result<(), TaskError> {
        Ok(self.fleet.run("sdiag", &["--reset"]).map(drop)?)
    }

    /// Opens these partitions and closes all others.
    pub(super) fn open(&self, names: &[&str]) -> Result<(), TaskError> {
        for partition in PARTITIONS {
            let state = if names.contains(&partition) { "up" } else { "down" };
            let update = [format!("partition={partition}"), format!("state={state}")];
            self.fleet.run("scontrol", &["update", &update[0], &update[1]])?;
        }
        Ok(())
    }

    pub(super) fn configure(&self, schedulers: &str) -> Result<(), TaskError> {
        let first = 1 + self.number * JOBS_PER_ROUND;
        Ok(self.fleet.configure(self.controller, &format!("{schedulers}\nFirstJobId={first}"))?)
    }

    fn users() -> Result<[(u32, u32); 2], HarnessError> {
        Ok([User::Alice.ids()?, User::Bob.ids()?])
    }

    pub(super) fn jobs(&self) -> Result<Jobs, TaskError> {
        Ok(Jobs::new(self.controller, Self::users()?))
    }

    fn processor_us(&self) -> Result<f64, TaskError> {
        let spent = self.fleet.controller().and_then(|process| processor_us(process.pid));
        spent.ok_or_else(|| TaskError::Other("slurmctld does not run".to_owned()))
    }

    /// Microseconds that a thread of slurmctld has had of processors.
    pub(super) fn thread_us(&self, name: &str) -> Result<f64, TaskError> {
        let spent = self.fleet.controller().and_then(|process| thread_us(process.pid, name));
        spent.ok_or_else(|| TaskError::Other("slurmctld does not run".to_owned()))
    }

    /// Does a piece of work and adds the seconds that slurmctld's threads had of processors meanwhile. Returns them too.
    pub(super) fn timed<T>(
        &mut self,
        case: &str,
        work: impl FnOnce(&mut Self) -> Result<T, TaskError>,
    ) -> Result<(T, f64), TaskError> {
        self.tell(case);
        let before = self.processor_us()?;
        let made = work(self)?;
        let spent = (self.processor_us()? - before) / 1e6;
        self.add(case, "processor s", spent);
        Ok((made, spent))
    }

    pub(super) fn memory(&mut self, when: &str) -> Result<(), TaskError> {
        let process = self.fleet.controller();
        let status = process.and_then(|p| fs::read_to_string(format!("/proc/{}/status", p.pid)).ok());
        let kib = status.as_deref().and_then(resident_kib);
        let kib = kib.ok_or_else(|| TaskError::Other("slurmctld does not run".to_owned()))?;
        self.add(&format!("memory, {when}"), "MiB", kib / 1024.0);
        Ok(())
    }

    /// Starts the controller and waits until it answers: seconds until then.
    pub(super) fn start(&mut self, fresh: bool) -> Result<f64, TaskError> {
        let begin = Instant::now();
        self.fleet.start(self.controller, fresh)?;
        self.answers()?;
        let answered = begin.elapsed().as_secs_f64();
        wait_for("all nodes to register", UNTIL_REGISTERED, || {
            let shown = self.fleet.run("sinfo", &["-h", "-p", PARTITIONS[0], "-o", "%T %D"]);
            let shown = shown.map_err(|error| with_causes(&error))?;
            if shown.lines().all(is_up) && !shown.is_empty() { Ok(()) } else { Err(shown) }
        })?;
        Ok(answered)
    }

    /// Waits until slurmctld answers a query.
    pub(super) fn answers(&self) -> Result<(), TaskError> {
        Ok(wait_for("slurmctld to answer", PATIENCE, || {
            self.client.load(self.fleet, "partitions", 1).map(drop).map_err(|error| with_causes(&error))
        })?)
    }

    fn begin(&mut self) -> Result<(), TaskError> {
        self.tell("starts without jobs");
        self.configure(RESTING)?;
        self.start(true)?;
        if self.controller == Controller::Tessera {
            node_words::speak(self.fleet)?;
        }
        self.open(&PARTITIONS)?;
        self.memory("empty")
    }

    /// Nothing in slurmctld's log may say that placement is off, or name a bug.
    fn no_complaints(&self) -> Result<(), TaskError> {
        let log = fs::read(self.fleet.cluster().layout().log("slurmctld")).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        let bad = |line: &&str| line.contains("error: tessera") || line.contains("bug in this plugin");
        match text.lines().find(bad) {
            Some(line) => Err(TaskError::Other(format!("slurmctld's log: {line}"))),
            None => Ok(()),
        }
    }
}

/// Resident memory in `/proc/PID/status`, kiB.
fn resident_kib(status: &str) -> Option<f64> {
    status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.split_whitespace().next()?.parse().ok()
}

/// Tells whether the nodes of a line of `sinfo -o "%T %D"` are up.
fn is_up(line: &str) -> bool {
    let state = line.split(' ').next().unwrap_or_default().trim_end_matches(['-', '+']);
    ["idle", "mixed", "allocated", "completing", "planned"].contains(&state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_is_resident() {
        assert_eq!(resident_kib("VmHWM:\t 9 kB\nVmRSS:\t  2048 kB\n"), Some(2048.0));
        assert_eq!(resident_kib(""), None);
    }

    #[test]
    fn a_node_that_has_not_registered_is_not_up() {
        assert!(is_up("idle 20") && is_up("mixed- 3") && is_up("completing+ 1"));
        assert!(!is_up("unknown 20") && !is_up("idle* 20") && !is_up("down 1") && !is_up(""));
    }
}
