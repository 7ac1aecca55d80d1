//! A step, and what its job has used while it ran.

use std::time::Instant;

use geometry::JobId;
use job_usage::{Places, Used, energy_of};
use step_accounting::{AccountedNode, NotAccounted};

/// Name of the step that this daemon serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepName {
    pub(crate) job: JobId,
    /// The step by which Slurm accounts the job as a whole.
    pub(crate) is_extern: bool,
    /// The node's name in Slurm.
    pub(crate) node: String,
}

/// A step whose job's energy is known.
pub(crate) struct EnergyStep {
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

impl EnergyStep {
    pub(crate) fn begin(name: StepName) -> Result<Self, NotAccounted> {
        let AccountedNode { places, energy } = AccountedNode::find(&name.node)?;
        if !energy {
            return Err(NotAccounted::Off);
        }
        let mut step = Self { name, places, before: Used::default(), begun: Instant::now() };
        if !step.name.is_extern {
            step.before = step.used()?;
        }
        Ok(step)
    }

    fn used(&self) -> Result<Used, NotAccounted> {
        Ok(energy_of(&self.places, self.name.job)?)
    }

    /// Reads the energy that the job has used, or has used since the step began.
    pub(crate) fn read(&self) -> Result<Reading, NotAccounted> {
        let joules = self.used()?.joules().saturating_sub(self.before.joules());
        let seconds = self.begun.elapsed().as_secs().max(1);
        Ok(Reading { joules, watts: u32::try_from(joules / seconds).unwrap_or(u32::MAX) })
    }
}
