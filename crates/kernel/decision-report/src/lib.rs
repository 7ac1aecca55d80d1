//! The decision for a job on a node and the weighed alternatives, and in words what slurmctld writes of them.
//!
//! This crate decides nothing: the placement crate fills a [`Report`] while it decides, and people read it.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod cost;
mod decision;
mod explain;
pub mod report;

pub use cost::Cost;
pub use decision::Decision;
pub use explain::{gbps, number, prediction};
pub use report::Report;
