//! Slurm's records, as far as they are read or written here. Where their fields lie: [`slurm_tables`].

use slurm_tables::table::BadTable;
use slurm_tables::{Layout, Text, record};

record! {
    /// Energy that a plugin answers [slurm/slurm.h].
    pub(super) struct Energy, EnergyLayout = "acct_gather_energy" {
        ave_watts: u32, at ave_watts_at;
        consumed_energy: u64, at consumed_energy_at;
        current_watts: u32, at current_watts_at;
        poll_time: i64, at poll_time_at;
        previous_consumed_energy: u64, at previous_consumed_energy_at;
    }
}

record! {
    /// The step that a slurmstepd serves [src/slurmd/slurmstepd/slurmstepd_job.h].
    pub(super) struct StepRecord, StepRecordLayout = "stepd_step_rec" {
        node_name: Text;
        job_id = "step_id.job_id": u32;
        step_id = "step_id.step_id": u32;
    }
}

/// Learns where the fields of all records lie.
///
/// # Errors
///
/// The first that the table has not, or not as it is read here.
pub(super) fn learn(layout: &Layout) -> Result<(), BadTable> {
    Energy::learn(layout)?;
    StepRecord::learn(layout)
}
