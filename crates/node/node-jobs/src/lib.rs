//! Makes a placement decision real on a node for one job, and takes it back.
//!
//! Used in the prolog and epilog (root) and by slurmstepd for the tasks' environment; `gpu-node`, above it, shows the node and sets
//! it right as a whole:
//!
//! - [`Numbering::translate`] turns slurmctld's grant into NVML's numbers; the compiler refuses any other below.
//! - [`realise()`] makes MIG mode, instances, device nodes and MPS daemon. It may be killed and run again.
//! - [`release()`] revokes access and gives a share back. Instances stay for the next job of their shape.
//! - [`renew_fence`] holds a job to its GPU memory by the kernel, in each of its tasks while that is root.
//! - [`task_environment`] says what a task sees, from the journal alone.
//!
//! Below it are the crates `node-driver` (NVML and processes), `node-journal` (what the node remembers, and its locks) and
//! `job-usage` (what a job's GPUs hold and have used).
//!
//! Modules, lowest first; imports only point down, and no two files import each other: `command`, `gpu_settings`; `numbering`;
//! `settings`; `access`, `mps`; `gpu_clients`, `stale_processes`, `broker`; `fault`; `power`, `fence`; `hand_over`, `hardware`, `driver`,
//! `instances`, `compute_instances`, `stale_instances`; `lifecycle`. `environment` and `task_variables` need the journal alone,
//! `blocks_gpu_jobs` also `command` and the locks, `loaded` and `memory_level` none of them.
//!
//! Invariants: nothing waits without a deadline; no shell is run; every change is journalled before it is made; a
//! journalled job's resources are only taken from it when it is known to be dead.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod access;
mod blocks_gpu_jobs;
pub mod broker;
mod command;
mod compute_instances;
pub mod driver;
mod environment;
mod fault;
pub mod fence;
pub mod gpu_clients;
mod gpu_settings;
mod hand_over;
pub mod hardware;
pub mod instances;
pub mod lifecycle;
pub mod loaded;
pub mod memory_level;
pub mod mps;
mod numbering;
mod open_files;
pub mod power;
mod preloaded;
mod settings;
pub mod stale_instances;
pub mod stale_processes;
mod task_variables;

pub use access::DeviceError;
pub use blocks_gpu_jobs::{NodeInSlurm, journal_problem, one_job, unfit_notes};
pub use broker::BrokerError;
pub use command::{CommandError, ToolRun, ask, printed};
pub use environment::{gpus_of_task, instances_per_task, numbers, task_environment, uuids, uuids_of_part};
pub use fault::{Fault, RealiseError};
pub use fence::{memory_regions, renew_fence};
pub use gpu_settings::GpuSettings;
pub use lifecycle::{
    JobContext, Realised, Released, WaitingSlurmd, begin_batch, is_journalled, realise, realise_waiting,
    refuse, release, release_if, seems_forgotten, serve_tasks,
};
pub use memory_level::MemoryLevel;
pub use mps::MpsError;
pub use numbering::{
    DescribedNode, GrantedGpu, Numbering, NumberingError, NvmlGrant, Unnumbered, minors_by_bus,
};
pub use preloaded::LibraryError;
pub use settings::Settings;
pub use stale_processes::Leftover;
pub use task_variables::{preload, stale_variables};
