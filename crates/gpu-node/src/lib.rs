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
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod command;
mod conflict;
mod crash;
mod deadline;
mod devices;
mod dirs;
mod driver;
mod environment;
mod expected;
mod fault;
mod gpu_access;
mod inspect;
mod instances;
pub mod journal;
mod lock;
mod mps;
mod numbers;
pub mod nvml;
mod realise;
mod reconcile;
mod refuse;
mod release;
mod settings;
mod starter;
mod waiting;

pub use command::{CommandError, ask};
pub use devices::DeviceError;
pub use dirs::DirError;
pub use environment::{task_environment, uuids_of_part, uuids_of_task};
pub use fault::{Fault, RealiseError};
pub use inspect::{Disagreement, GpuView, Inspection, inspect};
pub use lock::LockError;
pub use mps::MpsError;
pub use numbers::{NumberError, Numbers};
pub use realise::{JobContext, Realised, begin_batch, realise};
pub use reconcile::{ReconcileReport, reconcile, seems_forgotten};
pub use refuse::refuse;
pub use release::{Released, release, release_dead};
pub use settings::{GpuSettings, Settings};
pub use starter::Starter;
pub use waiting::realise_waiting;

#[cfg(test)]
mod tests;
