//! A CUDA driver without a GPU: `libcuda.so.1` for programs that should find, on a machine without one, GPUs whose memory runs out.
//!
//! The devices are those of nvml-sim's node. `host` has the memory behind device addresses, `core` decides, in safe Rust, and `ffi`
//! has the C functions and the kernels. The crate's README says how to use it.

#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod core;
#[expect(unsafe_code, reason = "CUDA's C interface; every block names whose promise it relies on")]
pub mod ffi;
pub mod host;
