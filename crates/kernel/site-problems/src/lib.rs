//! Finds what a good `tessera.toml` asks for in vain: names that Slurm does not have, paths that a node does not have,
//! settings without effect.
//!
//! None of this makes the file bad for Slurm's daemons. A name can be right tomorrow, and a daemon that refused the whole
//! file for it would do more harm. `tessera check` and `tessera doctor` report the problems at their places.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod node;
mod own;
mod power;
mod shown;
mod slurm_conf;

pub use node::{OnNode, problems_on_node};
pub use own::{own_problems, state_lost_at_reboot};
pub use shown::shown;
pub use slurm_conf::{gres_in_slurm_conf, names_in_slurm_conf, shards_in_gres_conf};
pub use slurm_names::{SlurmNames, gpu_types_in, unknown_to_slurm};
