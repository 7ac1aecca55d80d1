//! The node's task broker: GPU tasks of several jobs on devices that they share.
//!
//! [`core`] decides, without I/O.

#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod core;
pub mod shell;
