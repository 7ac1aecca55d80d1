//! Answers of Slurm for a node's programs: the tables that its commands print ([`slurm_table`]), which jobs and steps are here
//! ([`live_steps`]), and what each prolog leaves for the accounting plugins ([`accounting`]). slurmctld's plugins link none of it.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod accounting;
pub mod live_steps;
pub mod slurm_table;
pub mod step_number;
