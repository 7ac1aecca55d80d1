//! The CUDA runtime API: `libcudart.so.12` of the simulated node.
//!
//! It holds no state of a device. It loads `libcuda.so.1`, takes every function of it through `cuGetProcAddress`, as NVIDIA's does, and adds
//! what the runtime has beyond the driver: a device per thread, contexts that make themselves, kernels by the address of their
//! host function, and the last error. What it does not implement answers `cudaErrorNotSupported`: [`ffi::NOT_SUPPORTED`] lists it.

#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod error;
#[expect(unsafe_code, reason = "a C interface on top of another; blocks name whose promise it is")]
pub mod ffi;
