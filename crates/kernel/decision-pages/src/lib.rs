//! Reads the counts that slurmctld's plugins keep in shared memory, for `tessera exporter`, `tessera doctor` and
//! `tessera history`. No plugin links this crate.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod decisions;
mod page;
pub mod refusals_by_day;
pub mod words;
