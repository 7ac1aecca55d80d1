//! Makes a placement decision real on a node, and takes it back.
//!
//! Used in the prolog and epilog (root), by slurmstepd for the tasks' environment, and by the command line:
//!
//! - [`realise()`]: MIG mode, instances, device nodes, MPS daemon; safe to run again after being killed.
//! - [`release()`]: access revoked, share given back; instances stay for the next job of their shape.
//! - [`task_environment`]: what a task sees, from the journal alone.
//! - [`reconcile()`]: after a crash: what no live job owns is free again.
//! - [`inspect()`]: the node as it is, and where journal, driver, device nodes and daemons disagree.
//!
//! Invariants: nothing waits without a deadline; no shell is run; `unsafe` is in `nvml::ffi` alone; every change is
//! journalled before it is made; a journalled job's resources are only taken from it when it is known to be dead.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod access;
mod command;
mod crash;
mod deadline;
mod driver;
mod environment;
mod fault;
mod gpu_ids;
mod instances;
pub mod journal;
mod lifecycle;
mod lock;
mod mps;
mod numbering;
pub mod nvml;
mod one_line;
mod own_dirs;
mod remnants;
mod settings;
mod task_variables;

pub use access::DeviceError;
pub use command::{CommandError, ask};
pub use environment::{task_environment, uuids_of_part, uuids_of_task};
pub use fault::{Fault, RealiseError};
pub use gpu_ids::{GpuMinor, NvmlIndex, SlurmGpu};
pub use lifecycle::{
    Disagreement, GpuView, Inspection, JobContext, Realised, ReconcileReport, Released, WaitingSlurmd,
    begin_batch, inspect, realise, realise_waiting, reconcile, refuse, release, release_dead,
    seems_forgotten,
};
pub use lock::LockError;
pub use mps::MpsError;
pub use numbering::{GrantedGpu, InstanceSpec, Numbering, NumberingError, NvmlGrant};
pub use own_dirs::StateError;
pub use settings::{GpuSettings, Settings};
pub use task_variables::stale_variables;

#[cfg(test)]
mod tests;
