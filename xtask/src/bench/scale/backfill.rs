//! Cycles of backfill and of the main scheduler, for each kind of waiting job alone and for all of them.

use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::fleet::Controller;

use super::counters::Counters;
use super::in_turn;
use super::jobs::{KINDS, ODD};
use super::round::{FEW, MANY, Round};
use crate::command::TaskError;

/// The threads of both schedulers, as every series of Slurm names them.
const BACKFILL: &str = "bckfl";
const MAIN: &str = "sched_agent";
/// How long one kind may take until a cycle of backfill and one of the main scheduler are counted.
const LIMIT: Duration = Duration::from_secs(900);
/// How long more cycles of a kind are waited for. On 22.05, one of all kinds takes minutes on a large site.
const ENOUGH: Duration = Duration::from_secs(120);

impl Round<'_> {
    /// Measures each kind, then all together.
    pub(super) fn schedulers(&mut self) -> Result<(), TaskError> {
        cases().into_iter().try_for_each(|case| self.cycles(&case.open, case.name))
    }

    /// Measures both controllers on the same running and waiting jobs, in turn and soon after each other: those of Tessera's round. Slurm's
    /// own work depends on where jobs run, which the controllers choose differently, and a machine is faster and slower by the minute.
    pub(super) fn same_jobs(&mut self, running: usize) -> Result<(), TaskError> {
        self.turns(FEW, running, Self::submissions_that_end)?;
        // One turn only shows that this works: all kinds together are enough.
        let alone = if self.size.repeats().turns > 1 { 0 } else { KINDS.len() };
        let odd = Case { open: vec![ODD.0], name: ODD.1, tested: MANY };
        for Case { open, name, tested } in cases().into_iter().skip(alone).chain([odd]) {
            self.turns(tested, running, |round| round.cycles(&open, &format!("{name}, same jobs")))?;
        }
        self.take_over(Controller::Tessera, FEW, running).map(drop)
    }

    /// Measures backfill and the main scheduler for these kinds, in turn on the same jobs.
    pub(super) fn same_cycles(&mut self, running: usize, only: &[&str]) -> Result<(), TaskError> {
        let cases = cases().into_iter().filter(|case| case.open.iter().all(|kind| only.contains(kind)));
        for Case { open, name, tested } in cases {
            self.turns(tested, running, |round| round.cycles(&open, &format!("{name}, same jobs")))?;
        }
        Ok(())
    }

    /// Does the same on both controllers, which take over from each other.
    fn turns(
        &mut self,
        of_partition: usize,
        running: usize,
        work: impl Fn(&mut Self) -> Result<(), TaskError>,
    ) -> Result<(), TaskError> {
        let (turns, sample) = (self.size.repeats().turns, self.sample);
        for turn in 0..turns {
            self.sample = sample * turns + turn;
            for controller in in_turn(turn) {
                self.take_over(controller, of_partition, running)?;
                work(self)?;
            }
        }
        self.sample = sample;
        Ok(())
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
            let is_enough = counted >= wanted || counted > 0 && begin.elapsed() > ENOUGH;
            if is_enough && now.main_cycles > 0.0 {
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

/// Waiting jobs that are measured together.
struct Case {
    /// Their partitions.
    open: Vec<&'static str>,
    name: &'static str,
    /// Jobs that backfill tests in each cycle, of each partition.
    tested: usize,
}

/// Each kind, then all together.
fn cases() -> Vec<Case> {
    let alone = KINDS.map(|(partition, name)| Case { open: vec![partition], name, tested: FEW });
    let open = KINDS.map(|(partition, _)| partition).to_vec();
    alone.into_iter().chain([Case { open, name: "mixed", tested: FEW }]).collect()
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
