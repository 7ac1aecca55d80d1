//! The questions of one test, and Slurm's answers during it.

use std::collections::HashSet;

use decision_counts::decisions;
use geometry::JobId;
use placement::HostResources;

use crate::memory::JobAddress;
use crate::view::{ChosenView, NodeView};

/// Slurm's question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Start it, if need be after the end of others.
    RunNow,
    /// Could it run on an empty cluster?
    TestOnly,
    /// At what time can it start?
    WillRun,
}

impl From<Ask> for decisions::Ask {
    fn from(ask: Ask) -> Self {
        match ask {
            Ask::RunNow => Self::RunNow,
            Ask::TestOnly => Self::TestOnly,
            Ask::WillRun => Self::WillRun,
        }
    }
}

/// Parameters of one test, in addition to the job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Test {
    pub(crate) ask: Ask,
    /// Least number of nodes; 0 counts as 1.
    pub(crate) min_nodes: u32,
    /// Slurm has named jobs that may be preempted.
    pub(crate) may_preempt: bool,
    /// The job's record, by which its decision is found again when it starts.
    pub(crate) record: JobAddress,
}

/// Slurm's answers before or after its own test. Everything is read at the moment of the question, nodes and reach once.
pub(crate) trait Slurm {
    /// The nodes in the test's bitmap: before Slurm's own test the candidates, after it the chosen ones.
    fn nodes(&self) -> &[NodeView];
    /// The names of the nodes that the job may run on: of any of its partitions, and those it insists on.
    fn within_reach(&self) -> &[String];
    /// The candidates for preemption whose end frees what they hold, in the order that Slurm has them in now.
    fn victims(&self) -> Vec<JobId>;
    /// The jobs that Slurm's answer is to preempt first; `None`: the caller does not want to know.
    fn preempted(&self) -> Option<HashSet<JobId>>;
    /// Slurm's choice of devices on one of its nodes.
    fn choice(&self, node: &NodeView) -> Option<ChosenView>;
    /// Number of GPUs that Slurm knows on a node; `None`: nothing of GPUs.
    fn gpus(&self, node: &NodeView) -> Option<u64>;
    /// Cores and memory that each of these running jobs has on a node.
    fn rooms(&self, node: &NodeView, jobs: &[JobId]) -> Vec<HostResources>;
    /// Cores and memory that Slurm means to give the job on each of these nodes, as far as they are not free there now.
    fn lacks(&self, nodes: &[&NodeView]) -> Vec<HostResources>;
    /// The names of the nodes on which an epilog is still to end.
    fn completing(&self) -> HashSet<String>;
    /// Tells whether a job still waits to be started.
    fn is_pending(&self, job: JobId) -> bool;
    /// Latest end of a running job, seconds since 1970; 0 for an unknown job.
    fn end_of(&self, job: JobId) -> i64;
    /// Start of the job that Slurm's own test has written, seconds since 1970.
    fn says_start(&self) -> i64;
    /// Time from which on a start is asked for, seconds since 1970; 0: from now on.
    fn asked_from(&self) -> i64;
    /// Start of the job that Slurm's own test foretells, seconds since 1970. It writes "now" for any time that it is asked for.
    fn start_time(&self) -> i64 {
        self.says_start().max(self.asked_from())
    }
    /// Tells whether Slurm forgets, while it looks ahead, that a GPU with shards in use is taken.
    fn forgets_shards(&self) -> bool;
    /// Backfill asks: it reserves nodes for a job that could start, and passes over one that could not.
    fn in_backfill(&self) -> bool;
    /// Seconds since 1970.
    fn now(&self) -> u64;
}
