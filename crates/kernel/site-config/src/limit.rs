//! Limits on the jobs of a partition, an account, a QOS or a user.

use protocol::Isolation;

/// Whole GPUs and compute slices that a limit leaves; `None`: any number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Most {
    /// Whole GPUs.
    pub gpus: Option<u64>,
    /// Compute slices, those of whole GPUs included.
    pub slices: Option<u64>,
}

/// Limit on the jobs of a partition, an account, a QOS or a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Place among the limits of the file, from 0.
    pub number: usize,
    /// Line of the file, from 1.
    pub line: usize,
    /// The limit is for jobs in this partition; `None`: in any.
    pub partition: Option<String>,
    /// The limit is for jobs of this account; `None`: of any.
    pub account: Option<String>,
    /// The limit is for jobs with this QOS; `None`: with any.
    pub qos: Option<String>,
    /// The limit is for jobs of this user, by name or number; `None`: of any.
    pub user: Option<String>,
    /// Number of that user; `None`: not known, so the limit holds nobody. See [`crate::SiteConfig::name_users`].
    pub uid: Option<u32>,
    /// The only isolations allowed: `Mig(None)`, `Mig(profile)`, `Mps`, `Tasks`, `Whole`. `None`: all.
    pub isolation: Option<Vec<Isolation>>,
    /// Most instances per node; `None`: any number.
    pub max_instances: Option<u32>,
    /// Most memory per instance, share or whole GPU, MiB; `None`: any.
    pub max_mem_mib: Option<u64>,
    /// Most that one job may have on all its nodes.
    pub per_job: Most,
    /// Longest time limit of a job, minutes; `None`: any.
    pub max_time_min: Option<u32>,
    /// Most that running jobs may have together.
    pub running: Most,
    /// `running` is for the jobs of each user alone.
    pub each_user: bool,
}
