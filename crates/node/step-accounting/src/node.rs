//! The node of a step that is accounted.

use std::env;

use geometry::JobId;
use job_usage::{Places, UsageError};
use node_slurm::accounting::Accounting;
use plugin_rt::{Chain, log};

/// Why nothing of a job is accounted.
#[derive(Debug, thiserror::Error)]
pub enum NotAccounted {
    /// The node is not Tessera's.
    #[error("no prolog of Tessera has run on node {0}")]
    Unmanaged(String),
    /// The site does not want energy to be accounted.
    #[error("[power] energy is not set in tessera.toml")]
    Off,
    /// Journal or driver cannot be used.
    #[error(transparent)]
    Usage(#[from] UsageError),
}

impl NotAccounted {
    /// Logs that `what` of a job is not accounted. Sites without Tessera's GPUs on some nodes list the plugins all the same.
    pub fn log(&self, job: JobId, what: &str) {
        let line = format!("job {job}: {what} is not accounted: {}", Chain(self));
        match self {
            Self::Off | Self::Unmanaged(_) => log::debug(line),
            Self::Usage(_) => log::error(line),
        }
    }
}

/// A node on which a prolog of Tessera has run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountedNode {
    /// Paths of its journal and driver.
    pub places: Places,
    /// The energy that jobs use is accounted.
    pub energy: bool,
}

impl AccountedNode {
    /// Reads what the last prolog has left on the node of this name in Slurm.
    ///
    /// # Errors
    ///
    /// No prolog has run there.
    pub fn find(name: &str) -> Result<Self, NotAccounted> {
        let left = Accounting::on_node(name, &|variable| env::var(variable).ok());
        let left = left.ok_or_else(|| NotAccounted::Unmanaged(name.to_owned()))?;
        let places = Places { state_dir: left.state_dir, nvml_library: left.nvml_library };
        Ok(Self { places, energy: left.energy })
    }
}
