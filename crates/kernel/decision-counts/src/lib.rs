//! What is counted of slurmctld's decisions, and which number of a page of memory holds which count.
//!
//! Pure: the crate `shared-pages` maps the pages, slurmctld's plugins count, and the exporter and the command line read.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod decisions;
pub mod refusals_by_day;
