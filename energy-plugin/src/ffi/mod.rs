//! Everything C: the symbols that Slurm looks up, and what is read from and written to its structs.

mod version;

use std::ffi::{CStr, c_int, c_void};
use std::time::{SystemTime, UNIX_EPOCH};

use geometry::JobId;
use plugin_rt::{Chain, guard_ok, log};
use step_accounting::ServedStep;

use crate::step::{EnergyStep, StepName};

include!(concat!(env!("OUT_DIR"), "/sys.rs"));

step_accounting::accounting_plugin!(
    "Tessera: energy of jobs' GPUs",
    "acct_gather_energy/tessera",
    sys::SLURM_VERSION_NUMBER,
    STEP
);

const SUCCESS: c_int = 0;

/// The step that this process serves; none in slurmd, and none if a job's energy is not known.
static STEP: ServedStep<EnergyStep> = ServedStep::new();

/// Nodes are other plugins' to measure.
#[unsafe(no_mangle)]
extern "C" fn acct_gather_energy_p_update_node_energy() -> c_int {
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn acct_gather_energy_p_get_data(kind: sys::acct_energy_type, data: *mut c_void) -> c_int {
    guard_ok("get_data", (), || match kind {
        sys::ENERGY_DATA_JOULES_TASK | sys::ENERGY_DATA_NODE_ENERGY_UP => {
            // SAFETY: acct_gather_energy.h: for these kinds `data` is one live `acct_gather_energy_t`.
            if let Some(energy) = unsafe { data.cast::<sys::acct_gather_energy_t>().as_mut() } {
                answer(energy);
            }
        }
        sys::ENERGY_DATA_LAST_POLL => {
            // SAFETY: acct_gather_energy.h: for this kind `data` is one `time_t`.
            if let Some(time) = unsafe { data.cast::<i64>().as_mut() } {
                *time = now();
            }
        }
        sys::ENERGY_DATA_SENSOR_CNT => {
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
fn answer(energy: &mut sys::acct_gather_energy_t) {
    let Some(read) = STEP.with(|| None, |step| step.read()) else { return };
    match read {
        Ok(reading) => {
            energy.previous_consumed_energy = energy.consumed_energy;
            energy.consumed_energy = reading.joules;
            energy.current_watts = reading.watts;
            energy.ave_watts = reading.watts;
            energy.poll_time = now();
        }
        Err(why) => log::debug(format_args!("energy: {}", Chain(&why))),
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn acct_gather_energy_p_set_data(kind: sys::acct_energy_type, data: *mut c_void) -> c_int {
    guard_ok("set_data", (), || {
        if kind != sys::ENERGY_DATA_STEP_PTR {
            return;
        }
        // SAFETY: slurmstepd.c: for this kind `data` is the step that this process serves, which lives as long as it.
        let Some(record) = (unsafe { data.cast::<sys::stepd_step_rec_t>().as_ref() }) else { return };
        if let Some(name) = named(record) {
            begin(name);
        }
    });
    SUCCESS
}

fn named(record: &sys::stepd_step_rec_t) -> Option<StepName> {
    if record.node_name.is_null() {
        return None;
    }
    // SAFETY: slurmstepd_job.h: a NUL-terminated string that lives as long as the step.
    let node = unsafe { CStr::from_ptr(record.node_name) }.to_string_lossy().into_owned();
    let is_extern = record.step_id.step_id == version::EXTERN_STEP;
    Some(StepName { job: JobId(record.step_id.job_id), is_extern, node })
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
        let asked: &[&str] = &include!(concat!(env!("OUT_DIR"), "/asked.rs"));
        assert_eq!(asked.len(), 6, "{asked:?}");
        assert_eq!(step_accounting::missing_symbols(asked, include_str!("mod.rs")), [""; 0]);
    }
}
