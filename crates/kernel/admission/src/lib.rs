//! Decides whether a job may be submitted or changed, and what its request means.
//!
//! A pure crate: jobs as plain values and the site's configuration go in, and a ruling comes out. slurmctld's job submit
//! plugin and `tessera explain` both ask here, so that they cannot disagree.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod aside;
pub mod change;
pub mod gres_list;
mod limits;
pub mod meaning;
mod note;
mod partitions;
pub mod plan;
mod power;
mod refusal;
mod ruling;
mod shares;

pub use aside::left_to_slurm;
pub use limits::forbids;
pub use partitions::distinct;
pub use refusal::Refusal;
pub use ruling::{Ruling, judge};
pub use shares::only_ours;
