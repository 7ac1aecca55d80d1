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
    /// When each node booted.
    pub(crate) boots: Boots,
}

impl Memory {
    /// A site with nothing running.
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine, pending: None, tried: Tried::default(), rebuilt: false, boots: Boots::default() }
    }

    /// Whether the last decision is for the job of this record.
    pub(crate) fn has_decided(&self, record: Record) -> bool {
        self.pending.as_ref().is_some_and(|p| p.record == record)
    }
}

/// When each node booted, by its place in the node table, seconds since 1970. A new configuration, which may change the places,
/// starts a new memory.
#[derive(Debug, Default)]
pub(crate) struct Boots {
    /// When the state was rebuilt: what booted before is not news.
    since: u64,
    known: Vec<u64>,
}

impl Boots {
    /// slurmctld computes the time of a boot anew from each registration's uptime. By less than this it is the same boot.
    const JITTER: u64 = 60;

    /// What is known when the state is rebuilt.
    pub(crate) fn at(since: u64, nodes: &[(usize, u64)]) -> Self {
        let mut boots = Self { since, known: Vec::new() };
        for (node, booted) in nodes {
            let _ = boots.is_new(*node, *booted);
        }
        boots
    }

    /// Takes note of when a node booted, and says whether it has since the last time. 0: it has not registered.
    pub(crate) fn is_new(&mut self, node: usize, booted: u64) -> bool {
        if booted == 0 {
            return false;
        }
        if self.known.len() <= node {
            self.known.resize(node + 1, 0);
        }
        let before = std::mem::replace(&mut self.known[node], booted);
        let before = if before == 0 { self.since } else { before };
        booted > before.saturating_add(Self::JITTER)
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
    fn a_boot_is_new_once_and_not_for_a_second_more_of_uptime() {
        let mut boots = Boots::at(1_000_000, &[(0, 900_000)]);
        assert!(!boots.is_new(0, 0), "it has not registered");
        assert!(!boots.is_new(0, 900_001) && !boots.is_new(0, 899_999));
        assert!(boots.is_new(0, 950_000), "later than the boot that was known");
        assert!(!boots.is_new(0, 950_000) && !boots.is_new(0, 950_002));
        assert!(!boots.is_new(0, 0) && !boots.is_new(0, 950_001), "the boot before is still known");
        assert!(!boots.is_new(0, 800_000), "a clock that was set back is no boot");
        // A node that registers for the first time since slurmctld's start.
        assert!(!boots.is_new(7, 999_000), "it booted before");
        assert!(boots.is_new(9, 1_000_100), "it booted while slurmctld ran");
        assert!(boots.is_new(7, 1_000_100));
    }

    #[test]
    fn marks_are_taken_once_and_bounded() {
        let mut marks = Marks::default();
        marks.set(JobId(1));
        assert!(marks.take(JobId(1)) && !marks.take(JobId(1)));
        (0..10_000).for_each(|id| marks.set(JobId(id)));
        assert!(marks.0.len() <= Marks::LIMIT);
    }
}
