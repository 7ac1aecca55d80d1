//! Options that choose the Slurm for which a task runs or builds.

use std::path::PathBuf;

use clap::Args;
use lab::Slurm;
use slurm_releases::Release;

use crate::command::{TaskError, absolute};
use crate::setup::{self, Purpose};

/// A Slurm of the set-up, or one that somebody has built.
#[derive(Args)]
pub(crate) struct Which {
    /// Slurm to run, from Debian's packages
    #[arg(long, conflicts_with_all = ["slurm_prefix", "slurm_source"])]
    slurm: Option<Release>,
    /// A Slurm built by hand: where it is installed
    #[arg(long, value_name = "DIR", requires = "slurm_source")]
    slurm_prefix: Option<PathBuf>,
    /// The source tree that it was built from, configured
    #[arg(long, value_name = "DIR", requires = "slurm_prefix")]
    slurm_source: Option<PathBuf>,
}

impl Which {
    /// Tells whether any of its options is there.
    pub(crate) fn is_given(&self) -> bool {
        self.slurm.is_some() || self.slurm_prefix.is_some()
    }

    /// Sets the machine up for it.
    pub(crate) fn set_up(&self, purpose: Purpose) -> Result<Slurm, TaskError> {
        self.set_up_beside(purpose, || Ok(()))
    }

    /// Sets the machine up for it beside `work`.
    pub(crate) fn set_up_beside(
        &self,
        purpose: Purpose,
        work: impl FnOnce() -> Result<(), TaskError>,
    ) -> Result<Slurm, TaskError> {
        let (Some(prefix), Some(source)) = (&self.slurm_prefix, &self.slurm_source) else {
            let release = self.slurm.unwrap_or(Release::MACHINE);
            setup::beside(Some(release), purpose, work)?;
            return Ok(release.into());
        };
        let slurm = Slurm::by_hand(&absolute(source)?, Some(&absolute(prefix)?))?;
        // Munge, the test users and NVIDIA's programs are the machine's own.
        setup::beside(Some(Release::MACHINE), purpose, work)?;
        Ok(slurm)
    }
}
