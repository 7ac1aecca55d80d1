//! The extern step of a job, and what the job's devices do while it runs.

use std::env;
use std::time::{Duration, Instant};

use geometry::JobId;
use gpu_node::nvml::Nvml;
use gpu_node::{Settings, has_devices, sample};
use plugin_rt::last_good::LastGood;
use plugin_rt::{slurm_conf, tessera_toml};

use crate::peaks::Peaks;

/// Why a job's GPUs are not sampled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoSample {
    #[error(transparent)]
    Config(#[from] tessera_toml::LoadError),
    #[error("tessera.toml does not describe node {0}")]
    NotListed(String),
    #[error(transparent)]
    Nvml(#[from] gpu_node::nvml::NvmlError),
    #[error(transparent)]
    Node(#[from] gpu_node::Fault),
}

/// The job whose extern step this daemon serves.
pub(crate) struct Step {
    job: JobId,
    settings: Settings,
    looked: Option<Instant>,
    pub(crate) peaks: Peaks,
}

/// Slurm 22.05 asks once for each process that was adopted by the extern step. They are one sample.
const ONE_SAMPLE: Duration = Duration::from_millis(500);

/// The job whose extern step a process with this command line serves: slurmstepd sets `slurmstepd: [4711.extern]`.
pub(crate) fn extern_of(command_line: &str) -> Option<JobId> {
    let (_, step) = command_line.split_once("slurmstepd: [")?;
    step.split_once(".extern]")?.0.parse().ok().map(JobId)
}

impl Step {
    /// `node` is the node's name in Slurm.
    pub(crate) fn new(job: JobId, node: String) -> Result<Self, NoSample> {
        let get = |name: &str| env::var(name).ok();
        let path = site_config::config_path(&get);
        let spool = slurm_conf::spool_dir(&slurm_conf::path(&get), &node);
        let site = match spool.as_deref().map(LastGood::in_dir) {
            Some(copy) => copy.look(&path)?.config,
            None => tessera_toml::load(&path)?.0,
        };
        let Some(spec) = site.node(&node) else { return Err(NoSample::NotListed(node)) };
        let settings = Settings::new(&site.node.for_node(&node), &site.mps, &spec.to_node().gpus);
        Ok(Self { job, settings, looked: None, peaks: Peaks::default() })
    }

    /// Looks at the job's devices. For a job without any, no driver is loaded.
    pub(crate) fn look(&mut self) -> Result<(), NoSample> {
        if self.looked.is_some_and(|last| last.elapsed() < ONE_SAMPLE) {
            return Ok(());
        }
        let looked = self.sample();
        // After the look: a driver that answers slowly is not asked all the time.
        self.looked = Some(Instant::now());
        looked
    }

    fn sample(&mut self) -> Result<(), NoSample> {
        if !has_devices(&self.settings, self.job)? {
            return Ok(());
        }
        // Loaded each time: the daemon of a step lives for days, and a driver that is replaced meanwhile must not be held.
        let nvml = Nvml::load(&self.settings.nvml_library)?;
        if let Some(sample) = sample(&self.settings, &nvml, self.job)? {
            self.peaks.add(&sample);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_extern_step_is_meant() {
        assert_eq!(extern_of("slurmstepd: [4711.extern]\0"), Some(JobId(4711)));
        for other in
            ["slurmstepd: [4711.batch]", "slurmstepd: [4711.0]", "slurmd", "slurmstepd: [x.extern]", ""]
        {
            assert_eq!(extern_of(other), None, "{other}");
        }
    }
}
