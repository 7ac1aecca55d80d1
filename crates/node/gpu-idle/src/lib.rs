//! Jobs that hold GPUs without using them.
//!
//! [`IdleRecord`] is what one node remembers: since when each device of its jobs is idle, from samples of the driver. [`verdict()`] says
//! for all jobs of the cluster who is warned and whose job ends, by the site's rules and what [`IdleMemory`] has of earlier
//! warnings. Nothing here has I/O or a clock.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod held_job;
mod memory;
mod record;
mod verdict;

#[cfg(test)]
mod month;
#[cfg(test)]
mod verdict_tests;

pub use held_job::HeldJob;
pub use memory::{IdleMemory, Promise, Warned};
pub use record::{DeviceSample, FRESH_S, IdleRecord, JobSample, LEAST_S, Stretch, stretch};
pub use verdict::{IdleStep, rule_of, verdict};
