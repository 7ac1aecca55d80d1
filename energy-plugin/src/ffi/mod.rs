//! Everything C: the symbols that Slurm looks up, and what is read from and written to its structs.

mod records;

use std::ffi::{c_int, c_uint, c_void};
use std::time::{SystemTime, UNIX_EPOCH};

use geometry::JobId;
use plugin_rt::{Chain, guard_ok, log};
use slurm_numbers as numbers;
use step_accounting::ServedStep;

use self::records::{Energy, StepRecord};
use crate::step::{EnergyStep, StepName};

step_accounting::accounting_plugin!("Tessera: energy of jobs' GPUs", "acct_gather_energy/tessera", STEP);

const SUCCESS: c_int = 0;

/// The step that this process serves; none in slurmd, and none if a job's energy is not known.
static STEP: ServedStep<EnergyStep> = ServedStep::new();

/// Nodes are other plugins' to measure.
#[unsafe(no_mangle)]
extern "C" fn acct_gather_energy_p_update_node_energy() -> c_int {
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn acct_gather_energy_p_get_data(kind: c_uint, data: *mut c_void) -> c_int {
    guard_ok("get_data", (), || match kind {
        numbers::ENERGY_DATA_JOULES_TASK | numbers::ENERGY_DATA_NODE_ENERGY_UP => {
            // SAFETY: acct_gather_energy.h: for these kinds `data` is one live `acct_gather_energy_t`.
            if let Some(energy) = unsafe { Energy::at(data) } {
                answer(energy);
            }
        }
        numbers::ENERGY_DATA_LAST_POLL => {
            // SAFETY: acct_gather_energy.h: for this kind `data` is one `time_t`.
            if let Some(time) = unsafe { data.cast::<i64>().as_mut() } {
                *time = now();
            }
        }
        numbers::ENERGY_DATA_SENSOR_CNT => {
            // SAFETY: acct_gather_energy.h: for this kind `data` is one `uint16_t`.
            if let Some(count) = unsafe { data.cast::<u16>().as_mut() } {
                *count = 1;
            }
        }
        // Of the node nothing is known: what Slurm has there stays.
        _ => {}
    });
    SUCCESS
}

/// Writes what the step's job has used. An answer that cannot be had leaves the last one.
fn answer(energy: Energy) {
    let Some(read) = STEP.with(|| None, |step| step.read()) else { return };
    match read {
        Ok(reading) => {
            let watts = [energy.current_watts_at(), energy.ave_watts_at()];
            // SAFETY: fields of a live record that this plugin is to fill.
            unsafe { energy.previous_consumed_energy_at().write(energy.consumed_energy()) };
            // SAFETY: as above.
            unsafe { energy.consumed_energy_at().write(reading.joules) };
            // SAFETY: as above.
            watts.into_iter().for_each(|place| unsafe { place.write(reading.watts) });
            // SAFETY: as above.
            unsafe { energy.poll_time_at().write(now()) };
        }
        Err(why) => log::debug(format_args!("energy: {}", Chain(&why))),
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn acct_gather_energy_p_set_data(kind: c_uint, data: *mut c_void) -> c_int {
    guard_ok("set_data", (), || {
        if kind != numbers::ENERGY_DATA_STEP_PTR {
            return;
        }
        if !learn(data) {
            return;
        }
        // SAFETY: slurmstepd.c: for this kind `data` is the step that this process serves, which lives as long as it.
        let Some(record) = (unsafe { StepRecord::at(data) }) else { return };
        if let Some(name) = named(record) {
            begin(name);
        }
    });
    SUCCESS
}

/// Learns where the fields of records lie, and compares the step's with that. Without that nothing is read or answered.
fn learn(step: *const c_void) -> bool {
    let Some(layout) = own_layout() else { return false };
    if let Err(why) = records::learn(&layout) {
        log::error(format_args!("energy: {why}"));
        return false;
    }
    let fits = StepRecord::described().map_or(Ok(()), |known| known.check(step.addr()));
    fits.inspect_err(|why| {
        log::error(format_args!("energy: this is no Slurm {} as it was published: {why}", layout.version))
    })
    .is_ok()
}

fn named(record: StepRecord) -> Option<StepName> {
    let node = record.node_name()?;
    let is_extern = record.step_id() == numbers::SLURM_EXTERN_CONT;
    Some(StepName { job: JobId(record.job_id()), is_extern, node })
}

fn begin(name: StepName) {
    let job = name.job;
    match EnergyStep::begin(name) {
        Ok(begun) => STEP.begin(begun),
        Err(why) => why.log(job, "energy"),
    }
}

/// There is nothing to configure in acct_gather.conf.
#[unsafe(no_mangle)]
extern "C" fn acct_gather_energy_p_conf_options(_options: *mut *mut c_void, _count: *mut c_int) {}

#[unsafe(no_mangle)]
extern "C" fn acct_gather_energy_p_conf_set(_context: c_int, _table: *mut c_void) {}

#[unsafe(no_mangle)]
extern "C" fn acct_gather_energy_p_conf_values(_list: *mut c_void) {}

#[cfg(test)]
mod tests {
    #[test]
    fn every_symbol_that_slurm_looks_up_is_here() {
        let table = slurm_tables::Tables::parse(slurm_tables::TABLES).unwrap();
        for release in &table.releases {
            let layout = table.layout(*release).unwrap();
            super::records::learn(&layout).unwrap();
            let asked = layout.asked("acct_gather_energy_p_");
            assert_eq!(asked.len(), 6, "{asked:?}");
            assert_eq!(step_accounting::missing_symbols(&asked, include_str!("mod.rs")), [""; 0]);
        }
    }
}
