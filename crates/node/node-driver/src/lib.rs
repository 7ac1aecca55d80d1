//! A node's GPUs as NVML shows them, and its processes as `/proc` does.
//!
//! [`nvml`] holds the driver's library and every call of it. [`process`] reads what the kernel says of a process, and
//! [`process_environ`] its environment, each within a deadline: users decide how much there is. [`scarce`] tells what users can
//! use up. Whoever runs on a node builds on this: the plugins in slurmd and slurmstepd, the broker, the command line.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod deadline;
pub mod gpu_ids;
pub mod nvml;
pub mod process;
pub mod process_environ;
pub mod scarce;

pub use gpu_ids::{GpuMinor, NvmlIndex};
