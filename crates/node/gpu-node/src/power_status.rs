//! The present power limits of a node's GPUs, for `tessera power status`.

use error_chain::Chain;
use geometry::JobId;

use crate::power_limits as power;
use gpu_survey::{is_persistent, power_draw_mw, power_enforced_mw};
use job_usage::energy::{self, Used};
use node_driver::NvmlIndex;
use node_driver::nvml::Nvml;
use node_jobs::Fault;
use node_jobs::Settings;
use node_jobs::lifecycle::require_root;
use node_journal::{Entry, GpuRecord, JobEnergy, Journal, StateError};

/// A GPU's power, mW.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuPower {
    /// The limit before any job's cap; as set, where no job has changed it.
    pub found_mw: u32,
    /// The limit that was set.
    pub set_mw: u32,
    /// The limit in force; lower than the one that was set where somebody limits the board out of band.
    pub enforced_mw: u32,
    /// Present draw, mW.
    pub draw_mw: u32,
    /// The lowest and the highest limit that it takes, where the driver says it.
    pub range_mw: Option<(u32, u32)>,
    /// Energy used since the driver was loaded, mJ, if the driver counts it.
    pub counted_mj: Option<u64>,
    /// The driver keeps the limit while no program has the GPU open (persistence mode); `None`: it does not say.
    pub is_persistent: Option<bool>,
}

/// A GPU with its power and the jobs on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuPowerView {
    /// NVML's number of it.
    pub gpu: NvmlIndex,
    /// Power, or why that is not known.
    pub power: Result<GpuPower, String>,
    /// The jobs that have it or a part of it, each with its cap, W.
    pub jobs: Vec<(JobId, Option<u16>)>,
    /// Energy that each of them has used of it, if that is accounted.
    pub used: Vec<(JobId, Used)>,
}

/// Power of every GPU. Changes nothing.
///
/// # Errors
///
/// Not root, the journal cannot be read, or the driver does not answer at all.
pub fn power_status(settings: &Settings) -> Result<Vec<GpuPowerView>, Fault> {
    require_root()?;
    let journal = Journal::open(&settings.node.state_dir)?;
    let (entries, _damaged) = journal.jobs()?.into_parts();
    let holds = |entry: &&Entry| entry.holds() && entry.boot == journal.boot();
    let nvml = Nvml::load(&settings.node.nvml_library)?;
    let mut all = Vec::new();
    for gpu in (0..nvml.count()?).map(NvmlIndex) {
        // One that does not answer is shown without jobs: whose it is, its UUID alone tells.
        let uuid = nvml.uuid(gpu).unwrap_or_default();
        let here = entries.iter().filter(holds).filter(|entry| entry.uses(&uuid));
        all.push(GpuPowerView {
            gpu,
            power: of_gpu(&journal, &nvml, gpu).map_err(|e| Chain(&e).to_string()),
            jobs: here.map(|entry| (entry.job(), entry.cap_w)).collect(),
            used: used(settings, &journal, &nvml, gpu).unwrap_or_default(),
        });
    }
    Ok(all)
}

/// Version of the node's driver.
///
/// # Errors
///
/// The driver cannot be loaded or does not answer.
pub fn driver_version(settings: &Settings) -> Result<String, Fault> {
    Ok(gpu_survey::driver_version(&Nvml::load(&settings.node.nvml_library)?)?)
}

fn used(
    settings: &Settings,
    journal: &Journal,
    nvml: &Nvml,
    gpu: NvmlIndex,
) -> Result<Vec<(JobId, Used)>, Fault> {
    if !settings.energy {
        return Ok(Vec::new());
    }
    Ok(on_gpu(journal, nvml, &power::record(nvml, gpu)?)?)
}

/// Gives the energy that each job on a GPU has used until now; none where the driver does not tell.
fn on_gpu(journal: &Journal, nvml: &Nvml, gpu: &GpuRecord) -> Result<Vec<(JobId, Used)>, StateError> {
    let (Some(record), Ok(counter_mj)) = (energy::recorded(journal, gpu)?, nvml.energy_mj(gpu.index)) else {
        return Ok(Vec::new());
    };
    let used = |job: &JobEnergy| {
        let mut used = Used::default();
        used.add(job);
        (job.job(), used)
    };
    Ok(energy::charged(record, counter_mj).iter().map(used).collect())
}

fn of_gpu(journal: &Journal, nvml: &Nvml, gpu: NvmlIndex) -> Result<GpuPower, Fault> {
    let set_mw = nvml.power_limit_mw(gpu)?;
    let found_mw = power::found_mw(journal, nvml, gpu, set_mw)?;
    // Not every board says what is enforced.
    let enforced_mw = power_enforced_mw(nvml, gpu).unwrap_or(set_mw);
    let draw_mw = power_draw_mw(nvml, gpu)?;
    let range_mw = nvml.power_range_mw(gpu).ok();
    let counted_mj = nvml.energy_mj(gpu).ok();
    let is_persistent = is_persistent(nvml, gpu).ok();
    Ok(GpuPower { found_mw, set_mw, enforced_mw, draw_mw, range_mw, counted_mj, is_persistent })
}
