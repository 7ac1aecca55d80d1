//! One step, and what its job has used while it ran.

use std::env;
use std::time::Instant;

use geometry::JobId;
use gpu_node::nvml::Nvml;
use gpu_node::{Settings, Used, energy_of};
use plugin_rt::{last_good, tessera_toml};

/// Which step this daemon serves.
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
    #[error(transparent)]
    Config(#[from] tessera_toml::LoadError),
    #[error("tessera.toml does not describe node {0}")]
    NotListed(String),
    #[error("[power] energy is not set in tessera.toml")]
    Off,
    #[error(transparent)]
    Nvml(#[from] gpu_node::nvml::NvmlError),
    #[error(transparent)]
    Node(#[from] gpu_node::Fault),
}

/// A step whose job's energy is known.
pub(crate) struct Step {
    name: StepName,
    settings: Settings,
    /// What the job had used before.
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
        let site = last_good::on_node(&name.node, &|name| env::var(name).ok())?;
        let Some(spec) = site.node(&name.node) else { return Err(NoEnergy::NotListed(name.node)) };
        if !site.power.energy {
            return Err(NoEnergy::Off);
        }
        let settings = Settings::new(&site.node.for_node(&name.node), &site.mps, &spec.to_node().gpus);
        let mut step = Self { name, settings, before: Used::default(), begun: Instant::now() };
        if !step.name.is_extern {
            step.before = step.used()?;
        }
        Ok(step)
    }

    fn used(&self) -> Result<Used, NoEnergy> {
        // Loaded each time: the daemon of a step lives for days, and a driver that is replaced meanwhile must not be held.
        let nvml = Nvml::load(&self.settings.nvml_library)?;
        Ok(energy_of(&self.settings, &nvml, self.name.job)?)
    }

    /// What the job has used, or has used since the step began.
    pub(crate) fn read(&self) -> Result<Reading, NoEnergy> {
        let joules = self.used()?.joules().saturating_sub(self.before.joules());
        let seconds = self.begun.elapsed().as_secs().max(1);
        Ok(Reading { joules, watts: u32::try_from(joules / seconds).unwrap_or(u32::MAX) })
    }
}
