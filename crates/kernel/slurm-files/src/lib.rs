//! Reads the lines of Slurm's own files, `slurm.conf` and `gres.conf`, and from the latter which GPU each of Slurm's numbers means.
//!
//! Text goes in, types come out: the crate opens no file. No plugin of slurmctld links it.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod gres_conf;
mod lines;

pub use gres_conf::{AutoDetect, GpuOrder, gpu_order};
pub use lines::{Line, lines};
