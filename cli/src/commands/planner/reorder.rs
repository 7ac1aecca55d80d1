//! Carries the planned order out: gives pending jobs their Nice, and restores it.

use std::collections::HashSet;
use std::fs::File;

use super::decide::{Assignment, Decided};
use super::nice::Nices;
use super::order::{self, Rank};
use super::report::Report;
use crate::slurm::{scontrol, squeue};

/// The order of pending jobs, kept by Nice.
pub(super) struct NiceOrder {
    /// True if Nice orders jobs and does nothing else: under priority/basic an update also sends a job to the end.
    multifactor: bool,
    dry_run: bool,
    /// Nice that the planner has given to jobs.
    nices: Nices,
    /// Lock file of the notes, which also keeps a second planner out; `None` in a dry run.
    lock: Option<File>,
}

impl NiceOrder {
    pub(super) fn new(multifactor: bool, dry_run: bool, nices: Nices, lock: Option<File>) -> Self {
        Self { multifactor, dry_run, nices, lock }
    }

    /// True if the planner orders jobs at all.
    pub(super) fn is_by_nice(&self) -> bool {
        self.multifactor
    }

    /// As [`Nices::keep`].
    pub(super) fn keep(&mut self, nice_of: impl Fn(u32) -> Option<i64>) {
        self.nices.keep(nice_of);
    }

    /// Puts the jobs of one standing, `mine`, into the planned order.
    pub(super) fn set(
        &mut self,
        assignments: &[Assignment],
        mine: &HashSet<u32>,
        jobs: &[squeue::QueuedJob],
        report: &mut Report,
    ) {
        let rank = |c: &Assignment| {
            let job = jobs.iter().find(|j| j.id == c.job)?;
            let own_nice = self.nices.own(c.job, job.nice);
            Some(Rank { job: c.job, priority: job.priority, nice: job.nice, own_nice })
        };
        let ranks: Vec<Rank> = assignments.iter().filter_map(rank).collect();
        let other = |j: &&squeue::QueuedJob| j.state == "PENDING" && j.priority > 0 && !mine.contains(&j.id);
        let others: Vec<u64> = jobs.iter().filter(other).map(|j| j.priority).collect();
        for (job, nice) in order::nices(&ranks, &others) {
            let own = ranks.iter().find(|r| r.job == job).map_or(nice, |r| r.own_nice);
            let Some(job) = jobs.iter().find(|j| j.id == job) else { continue };
            self.set_nice(job, own, nice, report);
        }
    }

    /// Gives jobs that are no longer ordered their own Nice back.
    pub(super) fn give_back(&mut self, decided: &Decided, jobs: &[squeue::QueuedJob], report: &mut Report) {
        let planned =
            |id: u32| decided.batches.iter().any(|(_, assignments)| assignments.iter().any(|c| c.job == id));
        // A held job would get a priority with its Nice: it waits for both until somebody releases it.
        let waits = |j: &&squeue::QueuedJob| j.state == "PENDING" && j.priority > 0 && !planned(j.id);
        for job in jobs.iter().filter(|j| self.multifactor && waits(j)).collect::<Vec<_>>() {
            let own = self.nices.own(job.id, job.nice);
            if own != job.nice {
                self.set_nice(job, own, own, report);
            }
        }
    }

    fn set_nice(&mut self, of: &squeue::QueuedJob, own: i64, nice: i64, report: &mut Report) {
        let (job, number) = (of.id, of.number());
        let Some(name) = of.to_change() else { return };
        if !self.dry_run {
            // The note stays whatever becomes of the change: a planner that is killed, and one whose answer is lost, learn from squeue
            // which Nice the job has. A value that is not noted would be taken for the user's, for ever.
            self.nices.note(job, own, nice, of.nice);
            let given = self.keep_nices().and_then(|()| {
                scontrol::update(&name, &[format!("Nice={nice}")])
                    .map_err(|why| format!("job {number}: slurmctld refuses nice {nice}: {why}\n"))
            });
            if let Err(why) = given {
                report.failed = true;
                report.lines.push(why);
                return;
            }
        }
        let why = if nice == own { "its own value again" } else { "to run in the planned order" };
        report.lines.push(format!("job {number}: nice {nice}, {why}\n"));
    }

    fn keep_nices(&mut self) -> Result<(), String> {
        let kept = self.lock.as_mut().map_or(Ok(()), |file| self.nices.write(file));
        kept.map_err(|e| format!("Nice stays as it is, because it cannot be recorded: {e}\n"))
    }
}
