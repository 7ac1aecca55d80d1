//! The energy that jobs use, from the driver's counter of each GPU.
//!
//! The journal has a ledger for each GPU. Whenever a job starts or ends there, under the GPU's power lock, the counter is read,
//! and what was used since the last reading goes to the jobs that were there. So a job that was alone is charged exactly, one
//! that was beside others by its part of the GPU, which is an estimate: the driver counts whole GPUs only. A counter that cannot
//! be read stops no job.

mod ledger;

use error_chain::Chain;
use geometry::JobId;
use node_driver::nvml::Nvml;

use crate::present;
use crate::{Places, UsageError};
use ledger::{Holder, between, charge, held_by};
use node_journal::{EnergyRecord, Entry, GpuRecord, JobEnergy, Journal, StateError, VERSION};

/// Energy that a job has used so far on this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// While it was alone on its GPUs, mJ.
    pub exact_mj: u64,
    /// Share while others were there, mJ.
    pub estimated_mj: u64,
}

impl Used {
    /// All of it, whole joules.
    #[must_use]
    pub fn joules(self) -> u64 {
        (self.exact_mj + self.estimated_mj) / 1000
    }

    /// Adds what a ledger says of a job.
    pub fn add(&mut self, job: &JobEnergy) {
        self.exact_mj = self.exact_mj.saturating_add(job.exact_mj);
        self.estimated_mj = self.estimated_mj.saturating_add(job.estimated_mj);
    }
}

/// Brings the ledger of a GPU up to now and writes down who has it from now on. The caller holds the GPU's power lock.
pub fn turn(
    journal: &Journal,
    nvml: &Nvml,
    (gpu, slices): (&GpuRecord, u32),
    entries: &[Entry],
    notes: &mut Vec<String>,
) -> Result<(), StateError> {
    let counter_mj = match nvml.energy_mj(gpu.index) {
        Ok(counter_mj) => counter_mj,
        Err(e) => {
            notes.push(format!("its energy is not accounted: {}", Chain(&e)));
            return Ok(());
        }
    };
    let mut jobs = recorded(journal, gpu)?.map_or_else(Vec::new, |record| charged(record, counter_mj));
    let here = entries.iter().filter(|entry| entry.holds() && entry.uses(&gpu.uuid));
    let holders: Vec<Holder> =
        here.map(|entry| Holder { job: entry.job().0, part: part_of((gpu, slices), entry) }).collect();
    jobs = held_by(&jobs, &holders);
    let (boot, uuid) = (journal.boot().to_owned(), gpu.uuid.clone());
    journal.store_energy(&EnergyRecord { version: VERSION, boot, uuid, counter_mj, jobs })?;
    Ok(())
}

/// The ledger of a GPU, if it is of this boot.
pub fn recorded(journal: &Journal, gpu: &GpuRecord) -> Result<Option<EnergyRecord>, StateError> {
    Ok(journal.energy(&gpu.uuid)?.filter(|record| record.boot == journal.boot()))
}

/// The jobs of a ledger, with what they have used until the counter stands so.
#[must_use]
pub fn charged(mut record: EnergyRecord, counter_mj: u64) -> Vec<JobEnergy> {
    charge(&mut record.jobs, between(record.counter_mj, counter_mj));
    record.jobs
}

/// A job's part of a GPU, thousandths: of compute slices, and of these the threads of a share.
fn part_of((gpu, slices): (&GpuRecord, u32), entry: &Entry) -> u32 {
    let own: u32 = entry
        .instances_on(&gpu.uuid)
        .map(|i| i.part.map_or_else(|| compute_slices(&i.name), |part| u32::from(part.slices)))
        .sum();
    let whole = if own == 0 { 1000 } else { own * 1000 / slices.max(1) };
    entry.share.as_ref().map_or(whole, |share| whole * u32::from(share.threads) / 100).max(1)
}

/// `2` of `2g.10gb`.
fn compute_slices(profile: &str) -> u32 {
    profile.split(['g', 'c']).next().and_then(|digits| digits.parse().ok()).unwrap_or(1)
}

/// Gives the energy that a job has used until now on this node. Changes nothing, and takes no lock.
///
/// # Errors
///
/// The journal cannot be read, a GPU of the job is gone, or the driver does not answer.
pub fn energy_of(places: &Places, job: JobId) -> Result<Used, UsageError> {
    let journal = Journal::open(&places.state_dir)?;
    let mut used = Used::default();
    let Some(entry) = journal.job(job)? else { return Ok(used) };
    // Loaded each time: the daemon of a step lives for days, and a driver that is replaced meanwhile must not be held.
    let nvml = Nvml::load(&places.nvml_library)?;
    for gpu in &entry.gpus {
        let Some(record) = recorded(&journal, gpu)? else { continue };
        let counter_mj = nvml.energy_mj(present::find(&nvml, gpu)?.index)?;
        charged(record, counter_mj).iter().filter(|one| one.job() == job).for_each(|one| used.add(one));
    }
    Ok(used)
}
