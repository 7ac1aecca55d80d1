//! Answers of Slurm for a node's programs: the tables that its commands print ([`slurm_table`]), which jobs and steps are here
//! ([`live_steps`]), what each prolog leaves for the accounting plugins ([`accounting`]), the lines of slurm.conf that the node side
//! reads by itself ([`slurm_conf`]) and the node that a slurmd serves ([`node_name()`]). slurmctld's plugins link none of it.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod accounting;
#[expect(unsafe_code, reason = "Slurm's own functions that know this machine's node")]
mod ffi;
pub mod live_steps;
mod node_name;
pub mod slurm_conf;
pub mod slurm_table;
pub mod step_number;

pub use ffi::configured_node_name;
pub use node_name::node_name;
