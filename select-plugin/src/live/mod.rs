//! slurmctld's records read as plain values, and what each hook does with them. Safe code over [`crate::ffi`].

pub(crate) mod hooks;
pub(crate) mod job_test;
mod jobs;
mod nodes;
mod resources;
mod weights;
