//! A site's rules for its GPUs, as data: what they are for, who shares them, and what they may draw.
//!
//! Both sides read them: slurmctld decides by them, and a node makes what they allow.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod budget;
mod pool;
mod rules;

pub use budget::{PowerBudget, PowerRange};
pub use pool::{PoolPolicy, clients};
pub use rules::{Fill, MigPolicy, Purpose, SharedMemory};
