//! One round: a slurmctld from its start without any state to its end.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::command::{PATIENCE, run, wait_for};
use lab::fleet::{Controller, Fleet, PARTITIONS};
use lab::{HarnessError, User};

use super::super::scheduler::processor_us;
use super::client::{Client, Submitted};
use super::counters::Counters;
use super::figures::Figures;
use super::jobs::{Jobs, KINDS};
use super::{Size, node_words};
use crate::command::TaskError;

/// How schedulers go while jobs are submitted: hardly. Each submission has its own test.
const RESTING: &str =
    "SchedulerParameters=bf_max_job_test=1000,bf_interval=3600,bf_max_time=600,sched_interval=60,bf_continue";
/// How they go while they are measured.
const BUSY: &str = "SchedulerParameters=bf_max_job_test=1000,bf_max_job_part=60,bf_interval=2,bf_max_time=600,sched_interval=4,bf_continue";

/// No slurmd sees the number of a job twice: it would take the second job for the first.
const JOBS_PER_ROUND: usize = 1_000_000;

pub(super) struct Round<'a> {
    pub(super) fleet: &'a mut Fleet,
    pub(super) client: &'a Client,
    pub(super) controller: Controller,
    /// Among all rounds of both controllers.
    pub(super) number: usize,
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
        self.under_load()?;
        self.churn(&running)?;
        self.memory("at the end")?;
        self.fleet.stop()?;
        self.no_complaints()
    }

    pub(super) fn tell(&self, what: &str) {
        eprintln!("scale: {}, {what}", self.controller);
    }

    pub(super) fn add(&mut self, case: &str, unit: &'static str, value: f64) {
        self.figures.add((self.controller, self.number / 2), case, unit, value);
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

    fn configure(&self, schedulers: &str) -> Result<(), TaskError> {
        let first = 1 + self.number * JOBS_PER_ROUND;
        Ok(self.fleet.configure(self.controller, &format!("{schedulers}\nFirstJobId={first}"))?)
    }

    fn users() -> Result<[(u32, u32); 2], HarnessError> {
        Ok([User::Alice.ids()?, User::Bob.ids()?])
    }

    fn jobs(&self) -> Result<Jobs, TaskError> {
        Ok(Jobs::new(self.controller, Self::users()?))
    }

    fn processor_us(&self) -> Result<f64, TaskError> {
        let spent = self.fleet.controller().and_then(|process| processor_us(process.pid));
        spent.ok_or_else(|| TaskError::Other("slurmctld does not run".to_owned()))
    }

    /// Does a piece of work and adds the seconds that slurmctld's threads had of processors meanwhile.
    fn timed<T>(
        &mut self,
        case: &str,
        work: impl FnOnce(&mut Self) -> Result<T, TaskError>,
    ) -> Result<T, TaskError> {
        self.tell(case);
        let before = self.processor_us()?;
        let made = work(self)?;
        let spent = self.processor_us()? - before;
        self.add(case, "processor s", spent / 1e6);
        Ok(made)
    }

    fn memory(&mut self, when: &str) -> Result<(), TaskError> {
        let process = self.fleet.controller();
        let status = process.and_then(|p| fs::read_to_string(format!("/proc/{}/status", p.pid)).ok());
        let kib = status.as_deref().and_then(resident_kib);
        let kib = kib.ok_or_else(|| TaskError::Other("slurmctld does not run".to_owned()))?;
        self.add(&format!("memory, {when}"), "MiB", kib / 1024.0);
        Ok(())
    }

    /// Starts the controller and waits until it answers: seconds until then.
    fn start(&mut self, fresh: bool) -> Result<f64, TaskError> {
        let begin = Instant::now();
        self.fleet.start(self.controller, fresh)?;
        wait_for("slurmctld to answer", PATIENCE, || {
            self.client.load(self.fleet, "partitions", 1).map_err(|error| error.to_string())
        })?;
        let answered = begin.elapsed().as_secs_f64();
        wait_for("all nodes to register", PATIENCE, || {
            let shown = self.fleet.run("sinfo", &["-h", "-p", PARTITIONS[0], "-o", "%T %D"]);
            let shown = shown.map_err(|error| error.to_string())?;
            if shown.lines().all(is_up) && !shown.is_empty() { Ok(()) } else { Err(shown) }
        })?;
        Ok(answered)
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

    /// Takes every GPU and core. Returns the jobs.
    fn fill(&mut self) -> Result<Vec<u32>, TaskError> {
        let jobs = self.jobs()?.full(self.size.nodes);
        let all = self.timed("fill", |round| round.client.submit(round.fleet, &jobs))?;
        let running: Vec<u32> = all.iter().filter(|one| one.runs).filter_map(|one| one.job).collect();
        if running.len() != all.len() {
            let silent = node_words::silent(self.fleet)?;
            return Err(TaskError::Other(format!(
                "{}: only {} of {} jobs that fill the nodes run ({silent} nodes have not said that they load Tessera)",
                self.controller,
                running.len(),
                all.len()
            )));
        }
        self.quiet()?;
        self.memory("full cluster")?;
        Ok(running)
    }

    /// Waits until slurmctld has told all slurmds what it had to.
    fn quiet(&self) -> Result<(), TaskError> {
        Ok(wait_for("slurmctld's messages to be sent", PATIENCE, || match self.counters() {
            Ok(now) if now.agents == 0.0 => Ok(()),
            now => Err(format!("{now:?}")),
        })?)
    }

    fn submit(&mut self) -> Result<(), TaskError> {
        let jobs = self.jobs()?.waiting(self.size.pending);
        let all = self.timed("submissions", |round| round.client.submit(round.fleet, &jobs))?;
        self.submissions(&all, "")?;
        self.memory("all waiting")
    }

    /// Adds the time of each submission by its kind.
    fn submissions(&mut self, all: &[Submitted], when: &str) -> Result<(), TaskError> {
        let refused = all.iter().filter(|one| one.job.is_none()).count();
        if refused > 0 {
            return Err(TaskError::Other(format!("{}: {refused} submissions were refused", self.controller)));
        }
        for (_, name) in KINDS {
            for one in all.iter().filter(|one| one.label == name) {
                self.add(&format!("a submission{when}, {name}"), "ms", one.us / 1000.0);
            }
        }
        Ok(())
    }

    fn queries(&mut self, when: &str) -> Result<(), TaskError> {
        self.tell(&format!("queries {when}"));
        for what in ["jobs", "nodes", "partitions", "ping"] {
            for us in self.client.load(self.fleet, what, self.size.repeats().commands)? {
                self.add(&format!("query {when}, {what}"), "ms", us / 1000.0);
            }
        }
        Ok(())
    }

    fn commands(&mut self) -> Result<(), TaskError> {
        self.tell("commands");
        let part = match self.controller {
            Controller::Stock => "--gres=shard:10",
            Controller::Tessera => "--gpu-isolation=mig:2g.10gb",
        };
        let plain = ["-Q", "-p", "pcpu", "-c", "4", "-t", "60", "-o", "/dev/null", "--wrap", "true"];
        for (name, asked) in [("no GPU", None), ("gpu:2", Some("--gres=gpu:2")), ("a part", Some(part))] {
            for _ in 0..self.size.repeats().commands {
                let mut sbatch = self.fleet.command(self.controller, User::Root, "sbatch")?;
                let begin = Instant::now();
                run(sbatch.args(plain).args(asked))?.ok()?;
                self.add(&format!("sbatch, {name}"), "ms", 1000.0 * begin.elapsed().as_secs_f64());
            }
        }
        Ok(())
    }

    fn reconfigure(&mut self) -> Result<(), TaskError> {
        self.tell("reconfigures");
        for _ in 0..self.size.repeats().restarts {
            sleep(Duration::from_secs(3));
            let mut command = self.fleet.command(self.controller, User::Root, "scontrol")?;
            let begin = Instant::now();
            run(command.arg("reconfigure"))?.ok()?;
            self.add("reconfigure", "s", begin.elapsed().as_secs_f64());
        }
        sleep(Duration::from_secs(2));
        Ok(())
    }

    /// Ends slurmctld and starts it again, after which as many jobs have to run as before.
    fn restart(&mut self, running: usize) -> Result<(), TaskError> {
        self.tell("restarts");
        self.configure(BUSY)?;
        for _ in 0..self.size.repeats().restarts {
            self.fleet.stop()?;
            let answered = self.start(false)?;
            self.add("restart until it answers", "s", answered);
        }
        if self.controller == Controller::Tessera {
            // Since 24.11, a slurmd starts again when it is told to reconfigure.
            node_words::speak(self.fleet)?;
        }
        let now = self.fleet.run("squeue", &["-h", "-t", "running", "-o", "%i"])?.lines().count();
        if now != running {
            return Err(TaskError::Other(format!(
                "{}: {running} jobs ran, {now} after restarts",
                self.controller
            )));
        }
        self.memory("restarted")
    }

    /// Submissions and queries while both schedulers go.
    fn under_load(&mut self) -> Result<(), TaskError> {
        /// One for so many that wait.
        const SHARE: usize = 25;
        self.open(&KINDS.map(|(partition, _)| partition))?;
        let jobs = self.jobs()?.waiting((self.size.pending / SHARE).max(KINDS.len()));
        let all = self.timed("submissions under load", |round| round.client.submit(round.fleet, &jobs))?;
        self.submissions(&all, " under load")?;
        self.queries("under load")
    }

    /// Ends running jobs, so that others start.
    fn churn(&mut self, running: &[u32]) -> Result<(), TaskError> {
        /// Nothing has started for so long: what could start has.
        const STILL: Duration = Duration::from_secs(10);
        self.open(&["gpu"])?;
        let jobs = self.jobs()?.next(self.size.nodes * 4 / 5);
        let refused = self.client.submit(self.fleet, &jobs)?.iter().filter(|one| one.job.is_none()).count();
        let every = (2 * running.len() / self.size.nodes).max(1);
        let ends: Vec<u32> = running.iter().copied().step_by(every).collect();
        sleep(Duration::from_secs(3));
        self.reset_counters()?;
        let started = self.timed("churn", |round| {
            round.client.cancel(round.fleet, &ends)?;
            let (begin, mut last, mut since) = (Instant::now(), 0.0, Instant::now());
            while begin.elapsed() < PATIENCE && since.elapsed() < STILL {
                sleep(Duration::from_millis(500));
                let now = round.counters()?.started;
                if now > last {
                    (last, since) = (now, Instant::now());
                }
            }
            Ok(last)
        })?;
        self.add("churn, jobs that started", "jobs", started);
        if started == 0.0 || refused > 0 {
            return Err(TaskError::Other(format!(
                "{}: {} jobs ended, {started} started, and {refused} submissions were refused",
                self.controller,
                ends.len()
            )));
        }
        Ok(())
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

/// Whether the nodes of a line of `sinfo -o "%T %D"` are up.
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
