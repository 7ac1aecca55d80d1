//! The phases in which jobs and queries come: they fill the nodes, wait, and come again while both schedulers go.

use std::time::Instant;

use lab::User;
use lab::command::{PATIENCE, run, wait_for};
use lab::fleet::Controller;

use super::client::Submitted;
use super::jobs::{ALL_KINDS, KINDS, ODD};
use super::node_words;
use super::round::Round;
use crate::command::TaskError;

impl Round<'_> {
    /// Takes every GPU and core. Returns the jobs.
    pub(super) fn fill(&mut self) -> Result<Vec<u32>, TaskError> {
        let jobs = self.jobs()?.full(self.size.nodes);
        let (all, _) = self.timed("fill", |round| round.client.submit(round.fleet, &jobs))?;
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
    pub(super) fn quiet(&self) -> Result<(), TaskError> {
        Ok(wait_for("slurmctld's messages to be sent", PATIENCE, || match self.counters() {
            Ok(now) if now.agents == 0.0 => Ok(()),
            now => Err(format!("{now:?}")),
        })?)
    }

    pub(super) fn submit(&mut self) -> Result<(), TaskError> {
        let jobs = self.jobs()?.waiting(self.size.pending);
        let (all, _) = self.timed("submissions", |round| round.client.submit(round.fleet, &jobs))?;
        self.submissions(&all, "")?;
        self.memory("all waiting")
    }

    /// Adds the time of each submission by its kind.
    fn submissions(&mut self, all: &[Submitted], when: &str) -> Result<(), TaskError> {
        let refused = all.iter().filter(|one| one.job.is_none()).count();
        if refused > 0 {
            return Err(TaskError::Other(format!("{}: {refused} submissions were refused", self.controller)));
        }
        for (_, name) in KINDS.into_iter().chain([ODD]) {
            for one in all.iter().filter(|one| one.label == name) {
                self.add(&format!("a submission{when}, {name}"), "ms", one.us / 1000.0);
            }
        }
        Ok(())
    }

    pub(super) fn queries(&mut self, when: &str) -> Result<(), TaskError> {
        self.tell(&format!("queries {when}"));
        for what in ["jobs", "nodes", "partitions", "ping"] {
            for us in self.client.load(self.fleet, what, self.size.repeats().commands)? {
                self.add(&format!("query {when}, {what}"), "ms", us / 1000.0);
            }
        }
        Ok(())
    }

    pub(super) fn commands(&mut self) -> Result<(), TaskError> {
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

    /// Submissions and queries while both schedulers go.
    pub(super) fn under_load(&mut self) -> Result<(), TaskError> {
        self.open(&KINDS.map(|(partition, _)| partition))?;
        self.timed("submissions under load", |round| round.submit_some(" under load"))?;
        self.queries("under load")
    }

    /// Submissions while both schedulers go, of jobs that end before the next turn.
    pub(super) fn submissions_that_end(&mut self) -> Result<(), TaskError> {
        self.tell("submissions under load, same jobs");
        self.open(&KINDS.map(|(partition, _)| partition))?;
        let all = self.submit_some(" under load, same jobs")?;
        self.memory("same jobs")?;
        let jobs: Vec<u32> = all.iter().filter_map(|one| one.job).collect();
        self.client.cancel(self.fleet, &jobs)
    }

    /// Submits a part of the waiting jobs again.
    fn submit_some(&mut self, when: &str) -> Result<Vec<Submitted>, TaskError> {
        /// Waiting jobs for each job of this kind.
        const SHARE: usize = 25;
        let jobs = self.jobs()?.waiting((self.size.pending / SHARE).max(ALL_KINDS));
        let all = self.client.submit(self.fleet, &jobs)?;
        self.submissions(&all, when)?;
        Ok(all)
    }
}
