//! Daemons of a cluster.

/// A daemon of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Daemon {
    /// No daemon, but recorded as one: a process in the mount namespace that commands share, on a cluster in a chroot.
    Namespace,
    /// Authentication for this cluster alone.
    Munged,
    /// The database behind slurmdbd, on a cluster with accounting.
    Mariadbd,
    /// Accounting, on a cluster with it.
    Slurmdbd,
    /// The controller.
    Slurmctld,
    /// The controller that takes over, on a cluster with one.
    Backup,
    /// The daemon of one node.
    Slurmd(String),
}

impl Daemon {
    /// Name in the pid file and of its log.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Namespace => "namespace".to_owned(),
            Self::Munged => "munged".to_owned(),
            Self::Mariadbd => "mariadbd".to_owned(),
            Self::Slurmdbd => "slurmdbd".to_owned(),
            Self::Slurmctld => "slurmctld".to_owned(),
            Self::Backup => "slurmctld-backup".to_owned(),
            Self::Slurmd(node) => format!("slurmd-{node}"),
        }
    }
}
