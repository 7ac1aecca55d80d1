//! Makes a placement decision real on a node, and takes it back.
//!
//! Used in the prolog and epilog (root), by slurmstepd for the tasks' environment, and by the command line:
//!
//! - [`Numbering::translate`] turns slurmctld's grant into NVML's numbers; the compiler refuses any other below.
//! - [`realise()`] makes MIG mode, instances, device nodes and MPS daemon. It may be killed and run again.
//! - [`release()`] revokes access and gives a share back. Instances stay for the next job of their shape.
//! - [`renew_fence`] holds a job to its GPU memory by the kernel, in each of its tasks while that is root.
//! - [`task_environment`] says what a task sees, from the journal alone.
//! - [`reconcile()`] frees, after a crash, what no live job owns.
//! - [`inspect()`] shows the node, and where journal, driver, device nodes and daemons disagree.
//!
//! Below it are the crates `node-driver` (NVML and processes), `node-journal` (what the node remembers, and its locks) and
//! `job-usage` (what a job's GPUs hold and have used).
//!
//! Rooms, lowest first; imports only point down, and no two files import each other: `command`, `settings`; `access`, `mps`;
//! `leftovers`, `live_processes`; `fault`, `numbering`; `power`, `fence`; `hand_over`, `hardware`, `driver`, `instances`,
//! `compute_instances`, `remnants`; `lifecycle`. `tasks` speaks to the task broker. `environment` and `task_variables` need the
//! journal alone, `unfit` also `command` and the locks.
//!
//! Invariants: nothing waits without a deadline; no shell is run; every change is journalled before it is made; a
//! journalled job's resources are only taken from it when it is known to be dead.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod access;
mod command;
mod compute_instances;
mod driver;
mod environment;
mod fault;
mod fence;
mod hand_over;
mod hardware;
mod instances;
mod leftovers;
mod lifecycle;
pub mod live_processes;
mod mps;
mod numbering;
mod power;
mod preloaded;
mod remnants;
mod settings;
mod task_variables;
mod tasks;
mod unfit;

pub use access::DeviceError;
pub use command::{CommandError, ask, printed};
pub use environment::{gpus_of_task, instances_per_task, numbers, task_environment, uuids, uuids_of_part};
pub use fault::{Fault, RealiseError};
pub use fence::{memory_regions, renew_fence};
pub use hardware::{missing_in_proc, unlike_described};
pub use leftovers::Leftover;
pub use lifecycle::{
    Disagreement, GpuPower, GpuPowerView, GpuView, HandedOver, Inspection, JobContext, LiveJobs, Realised,
    ReconcileReport, Released, WaitingSlurmd, begin_batch, driver_version, hand_over, inspect, is_journalled,
    power_status, realise, realise_waiting, reconcile, refuse, release, release_dead, seems_forgotten,
    serve_tasks,
};
pub use mps::{MpsError, lacks_daemon};
pub use numbering::{GrantedGpu, Numbering, NumberingError, NvmlGrant, Unnumbered};
pub use preloaded::LibraryError;
pub use settings::{GpuSettings, Settings};
pub use task_variables::{preload, stale_variables};
pub use tasks::{BrokerError, lacks_broker};
pub use unfit::{NodeInSlurm, is_marked, journal_problem};

#[cfg(test)]
mod tests;
