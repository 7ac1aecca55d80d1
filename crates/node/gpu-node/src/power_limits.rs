//! Power limits of the node as a whole: what is left of jobs' caps, and where limits and journal differ.

use job_usage::present;
use node_driver::NvmlIndex;
use node_driver::nvml::{Nvml, NvmlError};
use node_jobs::power::plan::{LimitPlan, LimitStep, plan};
pub(crate) use node_jobs::power::record;
use node_jobs::power::{Holders, Settled, not_put_back, recorded, settle, watts};
use node_jobs::{Fault, Settings};
use node_journal::own_dirs::StateError;
use node_journal::{Entry, GpuRecord, Journal};

/// Finishes every change that the journal knows. The caller has the node to itself; `kept` are the live jobs.
pub(crate) fn reconcile(
    journal: &Journal,
    nvml: &Nvml,
    kept: &[Entry],
) -> Result<(Settled, Vec<NvmlIndex>), Fault> {
    let (mut settled, mut restored) = (Settled::default(), Vec::new());
    let (records, damaged) = journal.caps()?.into_parts();
    settled.problems.extend(damaged.iter().map(ToString::to_string));
    let holders = Holders { entries: kept.to_vec(), has_unknown: false };
    for record in records {
        match by_uuid(nvml, &record.uuid) {
            Ok(gpu) => {
                settle(journal, nvml, &gpu, &holders.caps_on(&gpu.uuid), &mut settled)?;
                if journal.cap(&record.uuid)?.is_none() {
                    restored.push(gpu.index);
                }
            }
            // Nothing of an earlier boot is left.
            Err(_) if record.boot != journal.boot() => journal.remove_cap(&record.uuid)?,
            Err(e) => settled.problems.push(not_put_back(&record, &e)),
        }
    }
    Ok((settled, restored))
}

/// The limit that the last job on a GPU will put back, where `now_mw` is in force.
pub(crate) fn found_mw(journal: &Journal, nvml: &Nvml, gpu: NvmlIndex, now_mw: u32) -> Result<u32, Fault> {
    let change = recorded(journal, &record(nvml, gpu)?)?.filter(|change| change.explains(now_mw));
    Ok(change.map_or(now_mw, |change| change.found_mw))
}

/// Lists the differences between limits and the journal, for `tessera doctor` and the like.
pub(crate) fn disagreements(
    settings: &Settings,
    journal: &Journal,
    nvml: &Nvml,
) -> Result<Vec<(NvmlIndex, String)>, StateError> {
    let (mut found, holders) = (Vec::new(), Holders::now(journal)?);
    let (records, _damaged) = journal.caps()?.into_parts();
    for record in records.iter().filter(|record| record.boot == journal.boot()) {
        let Ok(gpu) = by_uuid(nvml, &record.uuid) else { continue };
        let (false, Ok(now_mw)) = (settings.must_not_touch(gpu.index), nvml.power_limit_mw(gpu.index)) else {
            continue;
        };
        let LimitPlan { step, is_foreign } =
            plan(recorded(journal, &gpu)?, now_mw, &holders.caps_on(&gpu.uuid));
        let (now, to) = (watts(now_mw), watts(record.to_mw));
        if is_foreign {
            found.push((gpu.index, format!("its power limit is {now} W, not the {to} W that was set for jobs: another program changed it")));
        } else if let LimitStep::Restore(found_mw) = step {
            let was = watts(found_mw);
            found.push((
                gpu.index,
                format!("its power is limited to {now} W, and no job asks for that: it was {was} W"),
            ));
        } else if let LimitStep::Set(change) = step
            && change.to_mw != now_mw
        {
            let wanted = watts(change.to_mw);
            found.push((gpu.index, format!("its power limit is {now} W, not the {wanted} W of its jobs: the driver has lost the limit, or another program changed it")));
        }
    }
    Ok(found)
}

/// The GPU with a UUID. A GPU that does not answer may be the one, and then none is found.
fn by_uuid(nvml: &Nvml, uuid: &str) -> Result<GpuRecord, NvmlError> {
    record(nvml, present::index_of(nvml, uuid)?)
}
