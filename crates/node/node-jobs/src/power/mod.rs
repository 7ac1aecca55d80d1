//! Power limits of the GPUs that jobs use.
//!
//! The journal knows each change before it is made. Under a GPU's power lock, whoever starts or ends a job there brings the
//! limit to what the jobs that the journal has then ask for (`plan`); so the order of starts and ends does not matter, and
//! a killed process is made good by the next. The lock is taken after the job's and the GPUs' own, before that of device nodes.

pub mod plan;

use std::time::Duration;

use error_chain::Chain;
use geometry::GpuIndex;

use crate::fault::Fault;
use crate::settings::Settings;
use job_usage::energy;
use job_usage::present;
use node_driver::NvmlIndex;
use node_driver::deadline::Deadline;
use node_driver::nvml::{Nvml, NvmlError};
use node_journal::lock::Locks;
use node_journal::own_dirs::StateError;
use node_journal::{CapRecord, Entry, GpuRecord, Journal, VERSION};
use plan::{Change, LimitPlan, LimitStep, plan};

/// Outcome of setting or restoring the limits of some GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Limits that could not be set or put back.
    pub problems: Vec<String>,
    /// Limits that somebody else has changed.
    pub notes: Vec<String>,
}

/// Longest time that an ending job waits for another that sets the same GPU's limit, or resets it.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// Brings the limits of a job's GPUs to what it and the others there ask for. Its entry stands in the journal.
pub(crate) fn begin(
    settings: &Settings,
    journal: &Journal,
    nvml: &Nvml,
    entry: &Entry,
    deadline: &Deadline,
) -> Result<Settled, Fault> {
    let _power = Locks::for_power(&settings.node.state_dir, &entry.gpus, deadline)?;
    let holders = Holders::now(journal)?;
    let mut settled = Settled::default();
    for gpu in entry.gpus.iter().filter(|gpu| !settings.must_not_touch(gpu.index)) {
        let caps = holders.caps_on(&gpu.uuid);
        if concerns(journal, gpu, &caps)? {
            let before = settled.problems.len();
            settle(journal, nvml, gpu, &caps, &mut settled)?;
            if settled.problems.len() == before {
                settled.problems.extend(too_low(nvml, gpu.index, entry));
            }
        }
        if settings.energy {
            energy::turn(
                journal,
                nvml,
                (gpu, settings.compute_slices(gpu.index)),
                &holders.entries,
                &mut settled.notes,
            )?;
        }
    }
    Ok(settled)
}

/// Why the job's own cap could not be set once it is alone on a GPU, whoever is beside it now; `None`: it could.
fn too_low(nvml: &Nvml, gpu: NvmlIndex, entry: &Entry) -> Option<String> {
    let (asked_mw, range) = (u32::from(entry.cap_w?) * 1000, nvml.power_range_mw(gpu).ok()?);
    (asked_mw < range.0).then(|| format!("GPU {gpu}: {}", NotSet::OutOfRange(asked_mw, range)))
}

/// Brings the limits of an ending job's GPUs to what the others there ask for. The locks come with the answer, where they could
/// be had: until the entry is gone, nobody else may count who is on the GPUs.
pub(crate) fn end(
    settings: &Settings,
    journal: &Journal,
    entry: &Entry,
) -> Result<(Settled, Option<Locks>), Fault> {
    let mut settled = Settled::default();
    let power = Locks::for_power(&settings.node.state_dir, &entry.gpus, &Deadline::after(LOCK_WAIT));
    let power = power.map_err(|e| settled.problems.push(Chain(&e).to_string())).ok();
    let mut holders = Holders::now(journal)?;
    let with_it = holders.clone();
    holders.entries.retain(|other| other.job != entry.job);
    let mut concerned = Vec::new();
    for gpu in &entry.gpus {
        let limited = concerns(journal, gpu, &with_it.caps_on(&gpu.uuid))?;
        if power.is_some() && (limited || settings.energy) {
            concerned.push((gpu, limited));
        }
    }
    if concerned.is_empty() {
        return Ok((settled, power));
    }
    match Nvml::load(&settings.node.nvml_library) {
        Ok(nvml) => {
            for (gpu, limited) in concerned {
                let gpu = match present::find(&nvml, gpu) {
                    Ok(gpu) if settings.must_not_touch(gpu.index) => continue,
                    Ok(gpu) => gpu,
                    Err(e) => {
                        settled.problems.extend(gone(journal, gpu, &e)?);
                        continue;
                    }
                };
                if limited {
                    let done = settle(journal, &nvml, &gpu, &holders.caps_on(&gpu.uuid), &mut settled);
                    settled.problems.extend(done.err().map(|e| Chain(&e).to_string()));
                }
                if settings.energy {
                    let gpu = (&gpu, settings.compute_slices(gpu.index));
                    let done = energy::turn(journal, &nvml, gpu, &holders.entries, &mut settled.notes);
                    settled.problems.extend(done.err().map(|e| Chain(&e).to_string()));
                }
            }
        }
        Err(e) => settled.problems.push(Chain(&e).to_string()),
    }
    Ok((settled, power))
}

/// Describes the work that is left undone for a GPU that the driver does not show. Its record stays until the GPU is back
/// and is reconciled.
fn gone(journal: &Journal, gpu: &GpuRecord, e: &NvmlError) -> Result<Option<String>, StateError> {
    let record = journal.cap(&gpu.uuid)?.filter(|record| record.boot == journal.boot());
    Ok(record.map(|record| {
        format!("{}; once it is back, `tessera node reconcile` does that", not_put_back(&record, e))
    }))
}

/// The message about a limit that stays changed.
#[must_use]
pub fn not_put_back(record: &CapRecord, e: &NvmlError) -> String {
    let was = watts(record.found_mw);
    format!("the power limit of {} was {was} W and is not put back: {}", record.uuid, Chain(e))
}

/// Journals that a reset is about to lose a GPU's limit. The caller drops the answer when [`after_reset`] is done.
pub(crate) fn before_reset(
    settings: &Settings,
    nvml: &Nvml,
    gpu: &GpuRecord,
    deadline: &Deadline,
) -> Result<Locks, Fault> {
    let power = Locks::for_power(&settings.node.state_dir, std::slice::from_ref(gpu), deadline)?;
    let journal = Journal::open(&settings.node.state_dir)?;
    // A board without a limit has none to lose.
    let (Ok(now_mw), Ok(default_mw)) = (nvml.power_limit_mw(gpu.index), nvml.power_default_mw(gpu.index))
    else {
        return Ok(power);
    };
    let recorded = recorded(&journal, gpu)?;
    if now_mw != default_mw || recorded.is_some() {
        let LimitPlan { is_foreign, .. } = plan(recorded, now_mw, &[]);
        let found_mw = recorded.filter(|_| !is_foreign).map_or(now_mw, |change| change.found_mw);
        store(&journal, gpu, Change { found_mw, was_mw: now_mw, to_mw: default_mw })?;
    }
    Ok(power)
}

/// Puts back the limit that a reset has lost. What fails here is tried again when the GPU's limit is next settled.
pub(crate) fn after_reset(settings: &Settings, nvml: &Nvml, gpu: &GpuRecord) -> Result<(), Fault> {
    let journal = Journal::open(&settings.node.state_dir)?;
    if recorded(&journal, gpu)?.is_some() {
        settle(&journal, nvml, gpu, &[], &mut Settled::default())?;
    }
    Ok(())
}

/// A GPU as the journal names it, but for Slurm's number of it, which is taken to be NVML's: limits do not need it.
pub fn record(nvml: &Nvml, gpu: NvmlIndex) -> Result<GpuRecord, NvmlError> {
    let (minor, uuid) = (nvml.minor(gpu)?, nvml.uuid(gpu)?);
    Ok(GpuRecord { index: gpu, minor, uuid, number: GpuIndex(gpu.0) })
}

/// The jobs whose caps count.
#[derive(Clone)]
pub struct Holders {
    /// Those in the journal.
    pub entries: Vec<Entry>,
    /// A job's file is damaged: it may be on any GPU, and is not to be slowed.
    pub has_unknown: bool,
}

impl Holders {
    /// As the journal has them.
    pub fn now(journal: &Journal) -> Result<Self, StateError> {
        let (mut entries, damaged) = journal.jobs()?.into_parts();
        let has_unknown = !journal.lost_jobs(&entries, &damaged)?.is_empty();
        entries.retain(|entry| entry.holds() && entry.boot == journal.boot());
        Ok(Self { entries, has_unknown })
    }

    /// The cap of each job on a GPU, mW.
    #[must_use]
    pub fn caps_on(&self, uuid: &str) -> Vec<Option<u32>> {
        let here = self.entries.iter().filter(|entry| entry.holds() && entry.uses(uuid));
        let mut caps: Vec<Option<u32>> = here.map(|entry| entry.cap_w.map(|w| u32::from(w) * 1000)).collect();
        caps.extend(self.has_unknown.then_some(None));
        caps
    }
}

/// Tells whether there is anything to do on a GPU: without caps the driver is not asked.
fn concerns(journal: &Journal, gpu: &GpuRecord, caps: &[Option<u32>]) -> Result<bool, StateError> {
    Ok(caps.iter().any(Option::is_some) || journal.cap(&gpu.uuid)?.is_some())
}

/// The journal's change of this boot. After a reboot the limit is the driver's default again, and the record is over.
pub fn recorded(journal: &Journal, gpu: &GpuRecord) -> Result<Option<Change>, StateError> {
    let record = journal.cap(&gpu.uuid)?.filter(|record| record.boot == journal.boot());
    Ok(record.map(|r| Change { found_mw: r.found_mw, was_mw: r.was_mw, to_mw: r.to_mw }))
}

fn store(journal: &Journal, gpu: &GpuRecord, change: Change) -> Result<(), StateError> {
    let Change { found_mw, was_mw, to_mw } = change;
    journal.store_cap(&CapRecord {
        version: VERSION,
        boot: journal.boot().to_owned(),
        uuid: gpu.uuid.clone(),
        found_mw,
        was_mw,
        to_mw,
    })
}

/// Plans and carries out, for one GPU whose power lock the caller holds.
pub fn settle(
    journal: &Journal,
    nvml: &Nvml,
    gpu: &GpuRecord,
    caps: &[Option<u32>],
    settled: &mut Settled,
) -> Result<(), StateError> {
    let index = gpu.index;
    let now_mw = match nvml.power_limit_mw(index) {
        Ok(now_mw) => now_mw,
        Err(e) => {
            settled.problems.push(Chain(&e).to_string());
            return Ok(());
        }
    };
    let recorded = recorded(journal, gpu)?;
    let LimitPlan { step, is_foreign } = plan(recorded, now_mw, caps);
    if let (true, Some(change)) = (is_foreign, recorded) {
        let (now, ours) = (watts(now_mw), watts(change.to_mw));
        settled.notes.push(format!(
            "GPU {index}: its power limit is {now} W, not the {ours} W that was set for jobs: another program changed it, and it stays"
        ));
    }
    match step {
        LimitStep::Keep => {}
        LimitStep::Forget => journal.remove_cap(&gpu.uuid)?,
        LimitStep::Set(change) => {
            store(journal, gpu, change)?;
            if let Err(why) = set(nvml, index, now_mw, change.to_mw) {
                settled.problems.push(format!(
                    "GPU {index}: its power stays limited to {} W: {why}",
                    watts(nvml.power_limit_mw(index).unwrap_or(now_mw))
                ));
                // What is in force now decides whether anything is left to put back.
                if nvml.power_limit_mw(index).is_ok_and(|now| now == change.found_mw) {
                    journal.remove_cap(&gpu.uuid)?;
                }
            }
        }
        LimitStep::Restore(found_mw) => match set(nvml, index, now_mw, found_mw) {
            Ok(()) => journal.remove_cap(&gpu.uuid)?,
            Err(why) => settled.problems.push(format!(
                "GPU {index}: its power limit was {} W and is not put back: {why}",
                watts(found_mw)
            )),
        },
    }
    Ok(())
}

/// Why a limit is not in force after it was set.
#[derive(Debug, thiserror::Error)]
enum NotSet {
    #[error("{} W is not a limit of this GPU: it takes {} to {} W", watts(*.0), watts(.1.0), watts(.1.1))]
    OutOfRange(u32, (u32, u32)),
    #[error("{}", Chain(.0))]
    Refused(NvmlError),
    #[error("the driver accepts {} W and keeps the old limit", watts(*.0))]
    Ignored(u32),
    #[error("{} W were set, and another program set {} W at once", watts(*.wanted), watts(*.found))]
    Overwritten { wanted: u32, found: u32 },
}

/// Sets a limit and reads it back.
fn set(nvml: &Nvml, gpu: NvmlIndex, was_mw: u32, to_mw: u32) -> Result<(), NotSet> {
    // A driver that does not say its range refuses by itself.
    if let Ok(range) = nvml.power_range_mw(gpu)
        && !(range.0..=range.1).contains(&to_mw)
    {
        return Err(NotSet::OutOfRange(to_mw, range));
    }
    node_journal::crash::point("before a power limit is set");
    nvml.set_power_limit_mw(gpu, to_mw).map_err(NotSet::Refused)?;
    node_journal::crash::point("after a power limit is set");
    match nvml.power_limit_mw(gpu).map_err(NotSet::Refused)? {
        now if now == to_mw => Ok(()),
        now if now == was_mw => Err(NotSet::Ignored(to_mw)),
        found => Err(NotSet::Overwritten { wanted: to_mw, found }),
    }
}

/// For messages: whole watts where they are whole.
#[must_use]
pub fn watts(mw: u32) -> f64 {
    f64::from(mw) / 1000.0
}
