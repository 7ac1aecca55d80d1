//! A node's GPUs as a whole, for the command line: shown as they are, and set right after a crash.
//!
//! - [`inspect()`] shows the node, and where journal, driver, device nodes and daemons disagree.
//! - [`reconcile()`] frees, after a crash, what no live job owns.
//! - [`power_status()`] shows what limits the GPUs.
//! - [`each_device`] samples a job's devices one by one.
//! - [`LinkAnswers`] says how the GPUs are connected.
//! - [`node_extra`] writes what the node says of itself to slurmctld.
//! - [`hand_over()`] leaves the GPUs to Slurm alone, for an uninstallation.
//!
//! No plugin links it: the verbs of a single job are in `node-jobs`, and handed on here.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod broker_jobs;
mod described;
mod device_nodes;
mod device_use;
mod driver_params;
mod engine_view;
mod fences;
mod hand_over;
mod inspect;
pub mod job_processes;
mod links;
mod links_text;
mod lost_daemons;
pub mod node_extra;
mod power_limits;
mod power_status;
mod reconcile;
mod release_dead;

pub use broker_jobs::lacks_broker;
pub use described::{missing_in_proc, number_of, unlike_described};
pub use device_use::{DeviceUse, each_device};
pub use engine_view::GpuView;
pub use hand_over::{HandedOver, hand_over};
pub use inspect::{Disagreement, Inspection, inspect};
pub use links::LinkAnswers;
pub use links_text::links_text;
pub use lost_daemons::lacks_daemon;
pub use node_extra::{SAVED_AFTER, blocks_gpu_jobs};
pub use node_jobs::*;
pub use power_status::{GpuPower, GpuPowerView, driver_version, power_status};
pub use reconcile::{LiveJobs, ReconcileReport, reconcile};
pub use release_dead::release_dead;

#[cfg(test)]
mod tests;
