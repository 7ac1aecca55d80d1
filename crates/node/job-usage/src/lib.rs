//! Finds use and present index of a job's GPUs, and a process's job, from journal and driver. Nothing here changes a device.
//!
//! Slurm's accounting asks in the daemon of a step, so this needs neither `tessera.toml` nor the node's life: whoever asks says
//! where the journal and the driver's library are ([`Places`]).
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod energy;
mod places;
pub mod present;
pub mod slurm_process;

pub use energy::{Used, energy_of};
pub use places::{Places, UsageError};
