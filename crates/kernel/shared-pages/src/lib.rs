//! Counts that slurmctld's plugins keep in shared memory, and that other programs on its machine read (`decision-pages`).
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod decisions;
#[expect(unsafe_code, reason = "a mapping of a file")]
mod ffi;
mod page;
pub mod refusals_by_day;

pub use ffi::SharedPage;
pub use page::is_of;
