//! Cluster harness: a real Slurm with simulated GPUs on one machine, for the demo and the end-to-end tests.
//!
//! [`Cluster::builder`] starts one, from the project's own example files with directories, host names and ports
//! replaced. [`Cluster::run`] runs a command on it as one of the test users. Dropping it ends everything it started.
//! Several clusters can run at the same time: each has its own munged, ports and directory.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod accounting;
pub mod artefacts;
mod backup;
mod builder;
pub mod case_node;
pub mod case_pass;
mod clock;
pub mod cluster;
pub mod command;
pub mod config;
mod daemon;
mod daemons;
mod error;
mod files;
pub mod fleet;
pub mod guardian;
mod inside;
mod jobs;
mod layout;
mod look;
mod lost_answer;
pub mod nodes;
pub mod pages;
pub mod paths;
mod ports;
pub mod process;
mod ready;
mod sim;
pub mod slurm;
mod small_disk;
pub mod table_entry;
pub mod threads;
mod user;

pub use builder::{Builder, device_cgroups};
pub use cluster::Cluster;
pub use daemon::Daemon;
pub use error::{HarnessError, repeats_a_cause};
pub use jobs::{Job, JobId};
pub use layout::Layout;
pub use slurm::Slurm;
pub use user::User;
