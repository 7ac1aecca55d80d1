//! Whether a job may be submitted or changed, and what Slurm counts for it.
//!
//! Pure: jobs as plain values and the site's configuration in, a ruling out. slurmctld's job submit plugin and
//! `tessera explain` both ask here, so that they cannot disagree.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod change;
pub mod plan;
mod ruling;
mod submission;

pub use ruling::{Ruling, judge, limits_of};
pub use submission::{Submission, distinct};
