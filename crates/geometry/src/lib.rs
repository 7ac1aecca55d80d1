//! GPU models, their MIG profiles, and where on a GPU instances may lie.
//!
//! Knows nothing of jobs, links or Slurm. Memory is MiB; positions are NVML's placement units.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod capability;
mod coexist;
mod ids;
mod model;
pub mod size;

pub use coexist::coexist;
pub use ids::{GpuIndex, JobId, Placement, ProfileId, Slice, Uid};
pub use model::{GEOMETRY, MigReset, Model, Profile};
