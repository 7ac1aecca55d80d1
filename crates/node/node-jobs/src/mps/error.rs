//! Errors of MPS daemons.

use std::path::PathBuf;

use geometry::JobId;

use crate::command::CommandError;
use node_journal::own_dirs::StateError;

/// An MPS daemon that could not be started or ended.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum MpsError {
    /// A directory of ours.
    #[error(transparent)]
    State(#[from] StateError),
    /// The control program failed.
    #[error("MPS daemon {key} cannot be started")]
    Start {
        key: String,
        #[source]
        source: Box<CommandError>,
    },
    /// Whoever shares the daemon's directory cannot be told from others.
    #[error(
        "{path}: its file system has no ACLs, so that everybody on the node could change the limits of those who share \
         the GPU: put run_dir on tmpfs, ext4 or xfs"
    )]
    NoAcl { path: PathBuf },
    /// Runs, but does not take the limits that its shares need.
    #[error("MPS daemon {key} cannot be given the limits of its shares")]
    Limits {
        key: String,
        #[source]
        source: Box<CommandError>,
    },
    /// Another job uses the daemon.
    #[error("MPS daemon {key} serves job {holder}: it cannot be ended or changed before that job ends")]
    Held { key: String, holder: JobId },
    /// Users have filled `run_dir`.
    #[error("MPS daemon {key} finds no free space in {run_dir}: {largest}")]
    NoRoom {
        key: String,
        run_dir: PathBuf,
        /// The user with the most there.
        largest: String,
        #[source]
        source: Box<MpsError>,
    },
    /// Was started but does not listen.
    #[error("MPS daemon {key} does not answer after {timeout_ms} ms")]
    Silent { key: String, timeout_ms: u128 },
}

impl MpsError {
    /// True if no job can share a GPU here. False for an error that users can cause: they may write to a daemon's
    /// directories, and a daemon runs as its user, within that user's limits.
    #[must_use]
    pub fn drains_node(&self) -> bool {
        match self {
            Self::State(e) => !e.users_can_cause(),
            Self::Start { source, .. } => {
                matches!(**source, CommandError::Start { .. }) && !source.users_can_cause()
            }
            Self::NoAcl { .. }
            | Self::Limits { .. }
            | Self::Held { .. }
            | Self::NoRoom { .. }
            | Self::Silent { .. } => false,
        }
    }
}
