//! Cycles of backfill and of the main scheduler, for each kind of waiting job alone and for all of them.

use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::fleet::Controller;

use super::counters::Counters;
use super::jobs::KINDS;
use super::node_words;
use super::round::{BUSY, Round};
use crate::command::TaskError;

/// The threads of both schedulers, as every series of Slurm names them.
const BACKFILL: &str = "bckfl";
const MAIN: &str = "sched_agent";
/// How long the cycles of one kind may take.
const LIMIT: Duration = Duration::from_secs(600);

impl Round<'_> {
    /// Measures each kind, then all together.
    pub(super) fn schedulers(&mut self) -> Result<(), TaskError> {
        self.each_kind("")
    }

    /// Measures both controllers on the same running and waiting jobs: those of Tessera's round. Slurm's own work depends on where jobs
    /// run, which the controllers choose differently.
    pub(super) fn same_jobs(&mut self, running: usize) -> Result<(), TaskError> {
        for controller in Controller::BOTH {
            self.fleet.stop()?;
            self.controller = controller;
            self.configure(BUSY)?;
            self.start(false)?;
            self.still_run(running)?;
            if controller == Controller::Tessera {
                node_words::speak(self.fleet)?;
            }
            self.each_kind(", same jobs")?;
        }
        Ok(())
    }

    /// `on` tells the cases apart.
    fn each_kind(&mut self, on: &str) -> Result<(), TaskError> {
        for (partition, name) in KINDS {
            self.cycles(&[partition], &format!("{name}{on}"))?;
        }
        self.cycles(&KINDS.map(|(partition, _)| partition), &format!("mixed{on}"))
    }

    fn cycles(&mut self, open: &[&str], name: &str) -> Result<(), TaskError> {
        self.tell(&format!("backfill, {name}"));
        self.open(open)?;
        self.reset_counters()?;
        let wanted = self.size.repeats().cycles;
        let (begin, mut seen, mut counted) = (Instant::now(), 0.0, 0);
        let (mut backfill_us, main_us) = (0.0, self.thread_us(MAIN)?);
        loop {
            sleep(Duration::from_millis(250));
            let now = self.counters()?;
            if now.backfill_cycles > seen {
                // Backfill sleeps between its cycles: all of its time is theirs.
                let spent_us = self.thread_us(BACKFILL)?;
                // The cycle that ran while the partitions changed tested only some of the jobs.
                if seen > 0.0 && now.backfill_tests > 0.0 {
                    let per_test = now.backfill_last_us / now.backfill_tests / 1000.0;
                    self.add(&format!("backfill, {name}"), "ms/test", per_test);
                    if now.backfill_cycles == seen + 1.0 {
                        let per_test = (spent_us - backfill_us) / now.backfill_tests / 1000.0;
                        self.add(&format!("backfill, {name}"), "processor ms/test", per_test);
                    }
                    counted += 1;
                }
                (seen, backfill_us) = (now.backfill_cycles, spent_us);
                // Backfill goes again only once something has changed.
                self.fleet.run("scontrol", &["update", "partition=gpu", "maxtime=infinite"])?;
            }
            if counted >= wanted && now.main_cycles > 0.0 {
                self.add(&format!("main scheduler's cycle, {name}"), "ms", now.main_mean_us / 1000.0);
                let per_cycle = (self.thread_us(MAIN)? - main_us) / now.main_cycles / 1000.0;
                self.add(&format!("main scheduler's cycle, {name}"), "processor ms", per_cycle);
                return Ok(());
            }
            if begin.elapsed() > LIMIT {
                return Err(too_slow(name, &now));
            }
        }
    }
}

fn too_slow(name: &str, now: &Counters) -> TaskError {
    TaskError::Other(format!(
        "{name}: after {} s, backfill has had {} cycles, the last of {} tests, and the main scheduler {}",
        LIMIT.as_secs(),
        now.backfill_cycles,
        now.backfill_tests,
        now.main_cycles
    ))
}
