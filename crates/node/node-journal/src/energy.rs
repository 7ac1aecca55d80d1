//! The journal's record of a GPU's energy.

use geometry::JobId;
use serde::{Deserialize, Serialize};

use crate::format::JournalRecord;

/// JournalRecord of the jobs that have had a GPU's energy since its counter was first read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnergyRecord {
    /// [`crate::VERSION`].
    pub version: u32,
    /// The kernel's boot id: the counter does not survive a boot.
    pub boot: String,
    /// `GPU-…`; names the file.
    pub uuid: String,
    /// The driver's counter when it was last read, mJ.
    pub counter_mj: u64,
    /// The jobs on the GPU since then, with what they have used before.
    pub jobs: Vec<JobEnergy>,
}

/// Energy that one job on a GPU has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnergy {
    /// The job.
    pub job: u32,
    /// Part of the GPU, thousandths.
    pub part: u32,
    /// While it was alone there, mJ.
    pub exact_mj: u64,
    /// Share while others were there, mJ.
    pub estimated_mj: u64,
}

impl JobEnergy {
    /// The job.
    #[must_use]
    pub fn job(&self) -> JobId {
        JobId(self.job)
    }
}

impl JournalRecord for EnergyRecord {
    fn file_name(&self) -> String {
        crate::file_names::file_of_key(&self.uuid)
    }
}
