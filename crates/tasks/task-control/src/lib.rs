//! How root's programs (prolog, epilog, health check, `tessera tasks`) speak to the node's task broker.
//!
//! The broker listens at `RUN_DIR/tasks/control.sock`, which only root can open. A request is one line of JSON
//! ([`message::Request`]), and so is its answer ([`message::Answer`]). Each call of [`Broker`] is one connection, has a
//! deadline and may be repeated: a prolog that was killed half-way runs again.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod client;
mod job;
pub mod message;
pub mod status;

use std::path::{Path, PathBuf};

pub use client::{Broker, ControlError};
pub use job::{Device, Job};
pub use message::Ended;
pub use status::Status;

/// The folder of the broker's sockets and files below the node's run directory.
#[must_use]
pub fn folder(run_dir: &Path) -> PathBuf {
    run_dir.join("tasks")
}

/// Path of the socket on which the broker listens for root.
#[must_use]
pub fn control_socket(run_dir: &Path) -> PathBuf {
    folder(run_dir).join("control.sock")
}

/// Path of the socket on which the broker listens for the processes of a job: the value of `TESSERA_TASK_SOCKET`.
#[must_use]
pub fn socket(run_dir: &Path, job: u32) -> PathBuf {
    folder(run_dir).join(format!("{job}.sock"))
}
