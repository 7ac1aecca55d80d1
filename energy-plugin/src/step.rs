//! One step, and what its job has used while it ran.

use std::env;
use std::time::Instant;

use geometry::JobId;
use job_usage::{Places, UsageError, Used, energy_of};
use plugin_rt::accounting::Accounting;

/// Name of the step that this daemon serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepName {
    pub(crate) job: JobId,
    /// The step by which Slurm accounts the job as a whole.
    pub(crate) is_extern: bool,
    /// The node's name in Slurm.
    pub(crate) node: String,
}

/// Why nothing is known of a job's energy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoEnergy {
    #[error("no prolog of Tessera has run on node {0}")]
    Unmanaged(String),
    #[error("[power] energy is not set in tessera.toml")]
    Off,
    #[error(transparent)]
    Usage(#[from] UsageError),
}

/// A step whose job's energy is known.
pub(crate) struct Step {
    name: StepName,
    places: Places,
    /// Energy that the job had used before.
    before: Used,
    begun: Instant,
}

/// An answer to Slurm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) joules: u64,
    /// On average since the step began, W.
    pub(crate) watts: u32,
}

impl Step {
    /// A step that begins now.
    pub(crate) fn begin(name: StepName) -> Result<Self, NoEnergy> {
        let Some(node) = Accounting::on_node(&name.node, &|name| env::var(name).ok()) else {
            return Err(NoEnergy::Unmanaged(name.node));
        };
        if !node.energy {
            return Err(NoEnergy::Off);
        }
        let places = Places { state_dir: node.state_dir, nvml_library: node.nvml_library };
        let mut step = Self { name, places, before: Used::default(), begun: Instant::now() };
        if !step.name.is_extern {
            step.before = step.used()?;
        }
        Ok(step)
    }

    fn used(&self) -> Result<Used, NoEnergy> {
        Ok(energy_of(&self.places, self.name.job)?)
    }

    /// Reads the energy that the job has used, or has used since the step began.
    pub(crate) fn read(&self) -> Result<Reading, NoEnergy> {
        let joules = self.used()?.joules().saturating_sub(self.before.joules());
        let seconds = self.begun.elapsed().as_secs().max(1);
        Ok(Reading { joules, watts: u32::try_from(joules / seconds).unwrap_or(u32::MAX) })
    }
}
