//! What a job's GPUs hold, do and have used, as the journal and the driver tell. Nothing here changes a device.
//!
//! Slurm's accounting asks in the daemon of a step, so this needs neither `tessera.toml` nor the node's life: whoever asks says
//! where the journal and the driver's library are ([`Places`]).
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod energy;
mod places;
pub mod present;
pub mod slurm_process;
mod usage;

pub use energy::{Used, energy_of};
pub use places::{Places, UsageError};
pub use usage::{Sample, has_devices, sample};
