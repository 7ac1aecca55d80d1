//! CASE's and CASE-MIG's evaluations again: their baselines, mixes, figures and a simulator, and an audit of every run.
//!
//! Time is in seconds, memory in bytes, compute in warps. Nothing that a node or slurmctld runs links this crate.
//!
//! - [`policy`] adds the papers' baselines [`policy::Sa`], [`policy::Cg`], [`policy::SchedGpu`], [`policy::Slurm`] and
//!   [`policy::CaseMig`] to the policies of [`task_sched`].
//! - [`sim`] runs jobs against a [`task_sched::Scheduler`] and measures; [`audit`] checks the events of a run and shares no code
//!   with the policies.
//! - [`event`] has the events of a run and their lines, [`devices`] GPUs that only the studies use.
//! - [`mix`] holds the papers' jobs, [`figures`] their tables and figures again, each with the printed value, and [`papers`] the kind
//!   of each row.
//!
//! Sources: Chen, Porter and Pande, "CASE: A Compiler-Assisted SchEduling Framework for Multi-GPU Systems", `PPoPP` '22;
//! Porter, Chen and Pande, "Compiler-Assisted Scheduling for Multi-Instance GPUs", GPGPU '22.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod audit;
pub mod devices;
pub mod event;
pub mod figures;
pub mod mix;
mod node;
pub mod papers;
pub mod policy;
pub mod sim;

pub use event::RunEvent;
pub use node::{Node, NodeError};
