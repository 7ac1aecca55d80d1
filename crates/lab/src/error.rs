//! What can go wrong in the harness, said so that the failing test needs no second run.

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
    /// A program ended otherwise than expected.
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
    /// Something waited for did not come.
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

/// As for a person: a failed test shows errors through `Debug`, and line breaks as such are what one reads then.
impl fmt::Debug for HarnessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Attaches the path to an I/O error.
pub(crate) fn at<T>(path: &Path, result: std::io::Result<T>) -> Result<T, HarnessError> {
    result.map_err(|source| HarnessError::File { path: path.display().to_string(), source })
}
