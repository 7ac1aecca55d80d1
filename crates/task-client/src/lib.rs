//! `libtessera_task.so`: a program's GPU tasks, placed by the node's task broker.
//!
//! [`client`] speaks to the broker; `ffi` holds the C functions of `tessera_task.h` and the calls into CUDA's driver, which is
//! loaded only when a task has its device. Outside a job of kind `tasks` every function does nothing.

#![deny(unsafe_code)]

pub mod client;
#[expect(unsafe_code, reason = "the C interface, CUDA's driver, and the environment that CUDA reads")]
pub mod ffi;
