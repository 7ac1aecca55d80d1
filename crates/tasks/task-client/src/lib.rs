//! `libtessera_task.so`: a program's GPU tasks, placed by the node's task broker.
//!
//! [`client`] speaks to the broker. [`ledger`] and [`account`] are what a process holds that asks for nothing itself, [`mode`]
//! says which processes these are. `ffi` holds the C functions of `tessera_task.h`, the driver's functions that stand before
//! the driver's own where the library is preloaded, and the calls into the driver, which is loaded only when it is needed.
//! Outside a job of kind `gpu-tasks` every function does nothing or passes.

#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod account;
pub mod client;
#[expect(unsafe_code, reason = "the C interface, CUDA's driver, and the environment that CUDA reads")]
pub mod ffi;
pub mod lazy;
pub mod ledger;
pub mod mode;
pub mod no_device;
