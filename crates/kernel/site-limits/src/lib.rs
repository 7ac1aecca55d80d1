//! Meaning of a site's file for a job, what the job asks Slurm for, and what Slurm counts for it, while the job waits and while it runs.
//!
//! A pure crate. The select plugin asks here in every test of a job; `admission` has what only a submission or a change needs.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod amounts;
pub mod counted;
pub mod limit;
mod limits;
mod node_gres;
mod policy;
mod power;
pub mod slices;
mod submission;
pub mod tres;

pub use limits::{forbids_counted, in_options, none_left, refusal};
pub use node_gres::NodeGres;
pub use policy::{alpha, node_of, node_order, policy_for, sets};
pub use power::budgets_of;
pub use submission::{Submission, can_run, limits_of};

/// Advice on how a job that shares GPUs has to count its shards. Of other counts nobody knows before Slurm's choice what a
/// node is to give, and Slurm 22.05 takes one shard of each GPU for them.
pub const COUNTED_PER_NODE: &str = "a share is counted per node here: use --gres=shard:N";
