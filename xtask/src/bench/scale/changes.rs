//! The phases in which slurmctld reads its files again, starts again, and sees jobs end and others start.

use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::User;
use lab::command::{PATIENCE, run};
use lab::fleet::Controller;

use super::node_words;
use super::round::{FEW, Round, busy};
use crate::command::TaskError;

impl Round<'_> {
    pub(super) fn reconfigure(&mut self) -> Result<(), TaskError> {
        self.tell("reconfigures");
        for _ in 0..self.size.repeats().restarts {
            sleep(Duration::from_secs(3));
            let mut command = self.fleet.command(self.controller, User::Root, "scontrol")?;
            let begin = Instant::now();
            run(command.arg("reconfigure"))?.ok()?;
            self.answers()?;
            self.add("reconfigure until it answers", "s", begin.elapsed().as_secs_f64());
            // The slurmds read their files again, and register.
            self.quiet()?;
        }
        sleep(Duration::from_secs(2));
        Ok(())
    }

    /// Ends slurmctld and starts it again.
    pub(super) fn restart(&mut self, running: usize) -> Result<(), TaskError> {
        self.tell("restarts");
        for _ in 0..self.size.repeats().restarts {
            let answered = self.take_over(self.controller, FEW, running)?;
            self.add("restart until it answers", "s", answered);
        }
        self.memory("restarted")
    }

    /// Ends the controller of the moment, and starts one that finds its jobs, of which as many have to run as before: seconds until it
    /// answers.
    pub(super) fn take_over(
        &mut self,
        controller: Controller,
        of_partition: usize,
        running: usize,
    ) -> Result<f64, TaskError> {
        self.fleet.stop()?;
        self.controller = controller;
        self.configure(&busy(of_partition))?;
        let answered = self.start(false)?;
        let now = self.fleet.run("squeue", &["-h", "-t", "running", "-o", "%i"])?.lines().count();
        if now != running {
            return Err(TaskError::Other(format!("{controller}: {running} jobs ran, {now} after a restart")));
        }
        if controller == Controller::Tessera {
            // Since 24.11, a slurmd starts again when it is told to reconfigure.
            node_words::speak(self.fleet)?;
        }
        Ok(answered)
    }

    /// Ends running jobs, so that others start.
    pub(super) fn churn(&mut self, running: &[u32]) -> Result<(), TaskError> {
        /// Nothing has started for so long: what could start has.
        const STILL: Duration = Duration::from_secs(10);
        self.open(&["gpu"])?;
        let jobs = self.jobs()?.next(self.size.nodes * 4 / 5);
        let refused = self.client.submit(self.fleet, &jobs)?.iter().filter(|one| one.job.is_none()).count();
        let every = (2 * running.len() / self.size.nodes).max(1);
        let ends: Vec<u32> = running.iter().copied().step_by(every).collect();
        sleep(Duration::from_secs(3));
        self.reset_counters()?;
        let (started, spent) = self.timed("churn", |round| {
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
        self.add("churn, for each job that started", "processor ms", 1000.0 * spent / started.max(1.0));
        if started == 0.0 || refused > 0 {
            return Err(TaskError::Other(format!(
                "{}: {} jobs ended, {started} started, and {refused} submissions were refused",
                self.controller,
                ends.len()
            )));
        }
        Ok(())
    }
}
