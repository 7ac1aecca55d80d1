//! The single thread around the core: epoll, sockets, the table, NVML.
//!
//! Whoever can connect to `JOB.sock` belongs to the job: the socket is the user's alone, in a folder that only root can
//! change, and the kernel's word on the peer (`SO_PEERCRED`) must agree. Nobody sends a secret.

mod connection;
mod control;
mod files;
mod mps;
mod nvml;
mod options;
mod parent;
mod privilege;
mod serve;
mod table;

use std::path::PathBuf;

pub use options::{Asked, HELP, Options, Overuse, UsageError};
pub use parent::{PARENT, become_parent, keep_alive, start};
pub use serve::serve;

/// The exit status of a broker that finds another one serving.
pub const ANOTHER_SERVES: u8 = 3;

/// Why the broker cannot serve.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ServeError {
    /// A system call failed.
    #[error("cannot {what}")]
    Io {
        what: &'static str,
        #[source]
        source: std::io::Error,
    },
    /// Others could change the folder.
    #[error("{path}: must be a directory that belongs to root and that no other user can write to")]
    Unsafe { path: PathBuf },
    /// Was started and is silent.
    #[error("the task broker does not answer; {messages} says why")]
    NoAnswer { messages: PathBuf },
    /// No such policy.
    #[error("no policy {0}")]
    Policy(String),
}

impl ServeError {
    fn io(what: &'static str) -> impl Fn(std::io::Error) -> ServeError {
        move |source| ServeError::Io { what, source }
    }
}
