//! A node's GPUs as a whole, for the command line: shown as they are, and set right after a crash.
//!
//! - [`inspect()`] shows the node, and where journal, driver, device nodes and daemons disagree.
//! - [`reconcile()`] frees, after a crash, what no live job owns.
//! - [`power_status()`] shows what limits the GPUs.
//! - [`LinkAnswers`] says how the GPUs are connected.
//! - [`hand_over()`] leaves the GPUs to Slurm alone, for an uninstallation.
//!
//! No plugin links it: the verbs of a single job are in `node-jobs`, and handed on here.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod broker_jobs;
mod driver_params;
mod engine_view;
mod hand_over;
mod inspect;
pub mod job_processes;
mod links;
mod links_text;
mod power_status;
mod reconcile;

pub use broker_jobs::lacks_broker;
pub use engine_view::GpuView;
pub use hand_over::{HandedOver, hand_over};
pub use inspect::{Disagreement, Inspection, inspect};
pub use links::LinkAnswers;
pub use links_text::links_text;
pub use node_jobs::*;
pub use power_status::{GpuPower, GpuPowerView, driver_version, power_status};
pub use reconcile::{LiveJobs, ReconcileReport, reconcile};

#[cfg(test)]
mod tests;
