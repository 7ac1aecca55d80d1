//! GPU models, their MIG profiles, and the places where instances may be on a GPU.
//!
//! This crate knows nothing about jobs, links or Slurm. Memory is in MiB, positions are NVML's placement units.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod capability;
mod coexist;
mod compute;
mod ids;
mod known_models;
pub mod load;
mod model;
mod profile;
pub mod size;
mod tables;
mod whole;
mod words;

pub use coexist::coexist;
pub use compute::{ComputeProfile, compute_mask, split_compute_name};
pub use ids::{GpuIndex, JobId, Placement, ProfileId, Slice, Uid};
pub use model::{MigReset, Model, NoMig, SHARD_MIB};
pub use profile::Profile;
pub use tables::GEOMETRY;
pub use whole::{SiteModel, WHOLE_GPUS};
pub use words::counted;
