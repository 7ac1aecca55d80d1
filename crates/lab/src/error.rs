//! Errors of the harness. Each says enough that the failing test need not be run again.

use std::fmt;
use std::path::Path;

/// An error of the harness, or of a command it ran.
#[derive(thiserror::Error)]
pub enum HarnessError {
    /// A program could not be started.
    #[error("cannot run {program}: {source}")]
    Start {
        /// The program, as given.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// Something was not as expected; in particular, a program succeeded or failed unexpectedly.
    #[error("{0}")]
    Unexpected(String),
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// Something did not happen in time.
    #[error("waited {seconds} s for {what}; last seen: {last}")]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long.
        seconds: u64,
        /// What was there instead.
        last: String,
    },
}

/// The same text as `Display`: a failed test prints errors through `Debug`, which would escape line breaks.
impl fmt::Debug for HarnessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Attaches the path to an I/O error.
pub(crate) fn at<T>(path: &Path, result: std::io::Result<T>) -> Result<T, HarnessError> {
    result.map_err(|source| HarnessError::File { path: path.display().to_string(), source })
}
