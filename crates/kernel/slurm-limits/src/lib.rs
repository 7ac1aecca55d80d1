//! Limits that Slurm keeps of jobs, those of associations and QOS: which of them hold for a job, and which never let it start.
//!
//! Pure. slurmctld's job submit plugin reads the limits from slurmctld's memory, the command line from what `scontrol` prints; both ask
//! here, so that they agree.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod in_force;
mod never;
mod words;

pub use in_force::{Limited, QosRecord, in_force};
pub use never::never;
pub use words::{phrase, tres_amount};

/// Slices as a TRES.
pub const SLICES: &str = "license/slice";

/// Owner of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The jobs of an account and of the accounts below.
    Account(String),
    /// The jobs of a user in an account.
    User(String, String),
    /// All jobs of a QOS.
    Qos(String),
    /// A user's jobs of a QOS.
    UserOfQos(String, String),
    /// An account's jobs of a QOS.
    AccountOfQos(String, String),
    /// The jobs of a partition.
    Partition(String),
}

/// Subject of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitKind {
    /// An amount that running jobs have together.
    Together,
    /// An amount of one job.
    PerJob,
    /// An amount of one job on each of its nodes.
    PerNode,
    /// An amount that one job must have at the least.
    Least,
    /// An amount times minutes, used up as jobs run. `safe`: a job starts only if the rest is enough to its time limit.
    Minutes {
        /// `AccountingStorageEnforce` has `safe`.
        safe: bool,
    },
    /// An amount times the minutes that running jobs still have.
    RunMinutes,
    /// An amount of one job times its time limit.
    MinutesPerJob,
    /// Jobs that run together.
    Jobs,
    /// Jobs of an association that run together (`MaxJobs`). It holds unless a QOS limits the jobs of each user or account.
    MaxJobs,
    /// Minutes that jobs have run.
    Wall,
    /// The time limit of a job, minutes.
    WallPerJob,
}

/// A limit that slurmctld keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmLimit {
    /// Subject of the limit.
    pub kind: LimitKind,
    /// The TRES; empty for jobs and times.
    pub tres: String,
    /// The most that there may be.
    pub most: u64,
    /// Owner of the limit.
    pub holder: Holder,
}

/// Amounts that Slurm counts for a job, on all nodes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Whole GPUs.
    pub gpus: u64,
    /// Shards.
    pub shards: u64,
    /// Compute slices.
    pub slices: u64,
    /// Nodes of the job, at least 1.
    pub nodes: u64,
    /// Time limit of the job; `None`: not known.
    pub minutes: Option<u64>,
}

impl Need {
    /// The amount of a TRES. A job has at least a core and some memory.
    #[must_use]
    pub fn of(&self, tres: &str) -> u64 {
        match tres {
            "gres/gpu" => self.gpus,
            "gres/shard" => self.shards,
            SLICES => self.slices,
            "node" => self.nodes.max(1),
            "cpu" | "mem" => 1,
            _ => 0,
        }
    }
}
