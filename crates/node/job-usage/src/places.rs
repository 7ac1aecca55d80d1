//! Paths to read, and the errors of reading them.

use std::path::PathBuf;

use node_driver::nvml::NvmlError;
use node_journal::StateError;

/// Paths of a node's journal and driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The journal's directory.
    pub state_dir: PathBuf,
    /// NVML's file name or path, as for `dlopen`.
    pub nvml_library: PathBuf,
}

/// Why nothing is known of a job's devices.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// The journal cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The driver's answer.
    #[error(transparent)]
    Nvml(#[from] NvmlError),
}
