//! A node's layout in one line, for `node.extra` and `sinfo`, and back.
//!
//! ```text
//! tessera gpu0=mig[2g.10gb@0:job12,1g.5gb@2:idle] gpu1=whole[job13] gpu2=mps[job14:2862M/25%] gpu3-7=free
//! ```
//!
//! Memory is in MiB, threads in percent. GPUs have Slurm's numbers. A GPU that the site leaves to Slurm is `slurm` while no
//! job has it whole. A shared instance lists its shares:
//! `1g.5gb@2:mps[job14:2862M/25%]`, or its compute instances with the memory that their jobs state:
//! `7g.40gb@0:ci[4c@0:job15:19073M,3c@4:job16:19073M]`. A device in the pool of GPU tasks lists its jobs with their seats,
//! and after `>` the job that has claimed it: `1g.5gb@2:tasks[job14*2,job15*1>job20]`. Neighbouring GPUs in the same state are one entry. Users' ids are left out, because
//! anybody may read the line. At most [`MAX_SHARES`] shares of a device are listed, and the rest
//! added up: `+3:8586M/75%`. A line
//! that would exceed [`MAX_LEN`] bytes ends early with `...`. While `tessera.toml` has errors, the line begins with
//! `tessera config=last-good`, or is `tessera config=bad` where slurmctld knows no good version.
//! Jobs that have been told to end keep their places until their epilogs are over; `tessera ending=job12,job13 gpu0=…` names
//! them. A node whose GPUs are not those of the file has `tessera unfit: ` and the reason instead. While placement is
//! off because slurmctld is another Slurm, the line is [`OFF`].

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod line;
mod of_node;
mod parse;

pub use line::{
    ComputeLayout, ConfigInForce, GpuLayout, HolderLayout, InstanceLayout, Layout, LayoutError, MAX_LEN,
    MAX_SHARES, OFF, Seats, ShareLayout, Shares,
};
pub use of_node::{forget_idle, layout_of, remember_idle};
pub use parse::parse_layout;
