//! A node's GPUs and who holds them, what a job asks of them, and what was decided, as data and in words.
//!
//! This crate decides nothing: the placement crate does, and the audit crate checks the decisions over these types.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod apply;
mod ask;
mod budget;
pub mod cost;
mod decision;
mod explain;
mod layout;
mod pool;
pub mod report;
pub mod slices;
mod state;

pub use apply::ApplyError;
pub use ask::{Ask, Kind, Policy, SetPolicy, SharedMemory, Spread};
pub use budget::{PowerBudget, PowerRange};
pub use cost::Cost;
pub use decision::Decision;
pub use layout::layout_of;
pub use pool::{PoolDevice, PoolPolicy};
pub use report::Report;
pub use state::{Claim, ComputeHold, Gpu, GpuState, Holder, Instance, MigPolicy, Node, Purpose, Seat, Share};
