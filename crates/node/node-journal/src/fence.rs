//! The journal's record of a job's control-group limits for GPU memory.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Limits that the kernel holds a job to: its control group's, for the memory of its GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FenceRecord {
    /// The job's control group, relative to `cgroup_root`; `None`: only the job's steps can tell.
    pub dir: Option<PathBuf>,
    /// Limits, one for each region of the memory of the job's GPUs; never empty.
    pub limits: Vec<RegionLimit>,
    /// A single region has all of the job's memory: its limit is exactly what is counted for the job. With several regions a
    /// job can take as much of each.
    pub exact: bool,
    /// The limits were in force when this was written.
    #[serde(default)]
    pub in_force: bool,
}

/// The limit of one region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionLimit {
    /// The region's name in `dmem.capacity`.
    pub region: String,
    /// Most memory that the job may take of it, bytes.
    pub max_bytes: u64,
    /// The limit before ours, bytes: the epilog puts it back. `None`: there was none, `max`.
    pub found_bytes: Option<u64>,
}

impl FenceRecord {
    /// True if the kernel lets the job take no more than is counted for it.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.exact && self.in_force
    }
}
