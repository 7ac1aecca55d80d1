//! The SPANK plugin.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]
mod args;
mod ffi;
mod options;
mod slurmd;
mod submit;
