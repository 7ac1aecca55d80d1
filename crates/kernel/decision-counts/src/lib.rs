//! The counts of slurmctld's decisions, and their positions in a page of memory.
//!
//! Pure: the crate `shared-pages` maps the pages, slurmctld's plugins count, and the exporter and the command line read.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod decisions;
pub mod refusals_by_day;
