//! Where a GPU request goes: the pure core of Tessera.
//!
//! Takes a node's state and a request, returns a decision with its report. No I/O, no clock, no randomness, no
//! logging, no Slurm or NVML type: the shells around it (the Slurm plugins, the node side, the command line) carry
//! decisions out. Memory is MiB throughout; GPU indices are NVML's.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod admit;
pub mod decide;

pub use admit::{Admission, Never, admits_ever};
pub use decide::{decide, decide_with, fits};
