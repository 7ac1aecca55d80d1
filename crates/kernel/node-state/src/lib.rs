//! A node's GPUs and who holds them, and what a job asks of them, as data.
//!
//! This crate decides nothing: the placement crate does, and the audit crate checks its decisions over these types.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod apply;
mod ask;
mod budget;
mod pool;
pub mod slices;
mod state;

pub use apply::ApplyError;
pub use ask::{Ask, Fill, InstanceLimit, Kind, Policy, SetPolicy, SharedMemory, Spread};
pub use budget::{PowerBudget, PowerRange};
pub use pool::{PoolDevice, PoolPolicy, clients};
pub use state::{Claim, ComputeHold, Gpu, GpuState, Holder, Instance, MigPolicy, Node, Purpose, Seat, Share};
