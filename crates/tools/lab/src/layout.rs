//! Paths of a cluster's files, all under one directory.

use std::path::{Path, PathBuf};

/// Paths under a cluster's directory.
#[derive(Debug, Clone)]
pub struct Layout {
    dir: PathBuf,
}

impl Layout {
    /// The layout under `dir`, which must be absolute.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_path_buf() }
    }

    /// The cluster's directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A directory or file directly below it.
    #[must_use]
    pub fn at(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// `slurm.conf`, `tessera.toml` and the others.
    #[must_use]
    pub fn etc(&self, name: &str) -> PathBuf {
        self.dir.join("etc").join(name)
    }

    /// Log of a daemon, `slurmctld` or `slurmd-n1` for instance.
    #[must_use]
    pub fn log(&self, daemon: &str) -> PathBuf {
        self.dir.join("log").join(format!("{daemon}.log"))
    }

    /// Socket of the cluster's own munged.
    #[must_use]
    pub fn munge_socket(&self) -> PathBuf {
        self.munge("socket")
    }

    /// A file of munged's; it trusts only directories that its own user alone can write.
    #[must_use]
    pub(crate) fn munge(&self, name: &str) -> PathBuf {
        self.dir.join("munge").join(name)
    }

    /// Everything that stands for one node: `dev`, `proc`, `state` (of Tessera), `run`.
    #[must_use]
    pub fn node(&self, node: &str) -> PathBuf {
        self.dir.join("nodes").join(node)
    }

    /// State file of the node's simulated driver.
    #[must_use]
    pub fn sim_state(&self, node: &str) -> PathBuf {
        self.node(node).join("sim.state")
    }

    /// Scripts and output of the jobs that the harness submits; every user may write here.
    #[must_use]
    pub fn jobs(&self) -> PathBuf {
        self.dir.join("jobs")
    }
}
