//! Everything of Slurm that differs between series: nothing yet. From 22.05 to 24.11 the functions and the kinds of data are the
//! same; `acct_gather_energy_t` has grown, and the bindings follow it.

use super::sys;

/// The number of the step by which Slurm accounts a job as a whole.
pub(super) const EXTERN_STEP: u32 = sys::TESSERA_EXTERN_STEP;
