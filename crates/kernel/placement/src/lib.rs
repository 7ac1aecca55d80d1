//! Decides which GPUs, instances or share of one node a job gets: the pure core of Tessera.
//!
//! A node's state and a request go in; a decision with its report comes out. There is no I/O, clock, randomness,
//! logging, Slurm or NVML type here: the Slurm plugins, the node side and the command line carry decisions out. Memory
//! is in MiB. GPUs have the numbers of [`geometry::GpuIndex`].
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod admit;
mod budget;
mod claim;
pub mod decide;
mod never;
pub mod rank;
mod room;
pub mod victims;

pub use admit::{Admission, admits_ever};
pub use budget::{Budgets, Need, OnNode, Short};
pub use claim::{Awaited, await_pool};
pub use decide::{decide, decide_with, fits};
pub use never::Never;
pub use rank::{NodeCost, Slowness, rank};
pub use room::{Least, Room};
pub use victims::{HostResources, Needs, Victim, lacking, least_victims};
