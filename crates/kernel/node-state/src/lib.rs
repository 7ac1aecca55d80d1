//! A node's GPUs and who holds them, and what a job asks of them, as data.
//!
//! This crate decides nothing: the placement crate does, and the audit crate checks its decisions over these types.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod apply;
mod ask;
mod pool;
pub mod slices;
mod state;

pub use apply::ApplyError;
pub use ask::{Ask, InstanceLimit, Kind, Policy, SetPolicy, Spread};
pub use gpu_rules::{Fill, MigPolicy, PoolPolicy, PowerBudget, PowerRange, Purpose, SharedMemory, clients};
pub use pool::PoolDevice;
pub use state::{Claim, ComputeHold, Gpu, GpuState, Holder, Instance, Node, Seat, Share};
