//! What the plugin remembers between hooks. Never more than a bounded number of jobs, whatever users submit.

use std::collections::HashSet;

use geometry::JobId;
use protocol::wire::JobPlacement;

use crate::engine::Engine;

/// Everything that is remembered while the plugin places jobs.
pub(crate) struct Memory {
    /// What every GPU holds.
    pub(crate) engine: Engine,
    /// The last decision, until its job starts or another test comes.
    pub(crate) pending: Option<Pending>,
    /// What the last tests of jobs tried in vain.
    pub(crate) tried: Tried,
    /// The state knows all running jobs. Before that, the layouts from before a restart must stay readable.
    pub(crate) rebuilt: bool,
}

impl Memory {
    /// A site with nothing running.
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine, pending: None, tried: Tried::default(), rebuilt: false }
    }

    /// Whether the last decision is for the job of this record.
    pub(crate) fn has_decided(&self, record: Record) -> bool {
        self.pending.as_ref().is_some_and(|p| p.record == record)
    }
}

/// Which job record: its address. An array task gets its id only when it starts, the address stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record(pub(crate) usize);

/// A decision whose job has not started yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pending {
    pub(crate) record: Record,
    /// What its job gets.
    pub(crate) placement: JobPlacement,
    /// Begin and end that its plan predicts, seconds since 1970.
    pub(crate) planned: Option<(u64, u64)>,
    /// What its plan promises of its speed alone, percent.
    pub(crate) low: Option<u8>,
}

/// Ways to lead Slurm to some nodes rather than others. Slurm may be unable to use those, for reasons that only
/// cons_tres knows. So each way is marked before Slurm's own test and not taken in the next one; a start takes the marks
/// back.
#[derive(Debug, Default)]
pub(crate) struct Tried {
    /// Nodes that preemption could free were held back: the next test offers them.
    pub(crate) widen: Marks,
    /// The job was kept to the node that its plan names.
    pub(crate) off_plan: Marks,
    /// The job was kept to nodes with the GPUs that it waits for.
    pub(crate) off_good: Marks,
    /// The job was kept to GPUs with room for all of its instances.
    pub(crate) apart: Marks,
}

impl Tried {
    /// Slurm can start the job.
    pub(crate) fn forget(&mut self, job: JobId) {
        for marks in [&mut self.widen, &mut self.off_plan, &mut self.off_good, &mut self.apart] {
            marks.take(job);
        }
    }
}

/// Jobs that are marked until their next test.
#[derive(Debug, Default)]
pub(crate) struct Marks(HashSet<JobId>);

impl Marks {
    /// Most jobs marked at a time. All marks are dropped when there would be more: each costs its job one test at most.
    const LIMIT: usize = 4096;

    /// Marks a job until [`Self::take`].
    pub(crate) fn set(&mut self, job: JobId) {
        if self.0.len() >= Self::LIMIT {
            self.0.clear();
        }
        self.0.insert(job);
    }

    /// Takes a job's mark back; whether it had one.
    pub(crate) fn take(&mut self, job: JobId) -> bool {
        self.0.remove(&job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_taken_once_and_bounded() {
        let mut marks = Marks::default();
        marks.set(JobId(1));
        assert!(marks.take(JobId(1)) && !marks.take(JobId(1)));
        (0..10_000).for_each(|id| marks.set(JobId(id)));
        assert!(marks.0.len() <= Marks::LIMIT);
    }
}
