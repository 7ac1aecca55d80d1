//! Decides whether a job may be submitted or changed, what its request means, and what Slurm counts for it.
//!
//! A pure crate: jobs as plain values and the site's configuration go in, and a ruling comes out. slurmctld's job submit
//! plugin and `tessera explain` both ask here, so that they cannot disagree.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod amounts;
mod aside;
pub mod change;
pub mod gres_list;
mod limits;
pub mod meaning;
mod note;
pub mod plan;
mod power;
mod refusal;
mod ruling;
mod shares;
pub mod slices;
mod submission;

pub use aside::{Counted, left_to_slurm};
pub use limits::{forbids, forbids_counted, none_left, refusal};
pub use power::budgets_of;
pub use refusal::Refusal;
pub use ruling::{Ruling, judge};
pub use shares::{COUNTED_PER_NODE, only_ours};
pub use submission::{Submission, distinct, limits_of};
