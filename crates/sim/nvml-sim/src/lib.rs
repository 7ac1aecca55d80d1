//! A simulated GPU node behind the NVML ABI.
//!
//! Built as a C library this is `libnvidia-ml.so.1` for programs that should find GPUs where there are none. Everything that such a
//! program is told comes from one state file. `nvml-sim create` makes the file from a description, and all processes share it.
//!
//! `engine` is the behaviour, in safe Rust; `ffi` holds the C functions, each of which converts its arguments, guards against panics and
//! calls the engine once. Functions of the header that the simulator does not implement are exported all the same and answer
//! `NVML_ERROR_NOT_SUPPORTED`: [`ffi::NOT_SUPPORTED`] lists them.

#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod engine;
#[expect(unsafe_code, reason = "NVML's C interface; every block names whose promise it relies on")]
pub mod ffi;
