//! Errors of the harness. Each says enough that the failing test need not be run again.

use std::fmt;
use std::path::Path;

use error_chain::with_causes;

/// An error of the harness, or of a command it ran.
#[derive(thiserror::Error)]
pub enum HarnessError {
    /// A program could not be started.
    #[error("cannot run {program}")]
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
    #[error("{path}")]
    File {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// Something did not happen in time.
    #[error("waited {seconds} s for {what}; last seen: {last}")]
    Timeout {
        /// Description of what was waited for.
        what: String,
        /// How long.
        seconds: u64,
        /// Last state that was seen instead.
        last: String,
    },
}

/// The whole chain, with its line breaks: a failed test prints errors through `Debug`.
impl fmt::Debug for HarnessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&with_causes(self))
    }
}

/// Attaches the path to an I/O error.
pub(crate) fn at<T>(path: &Path, result: std::io::Result<T>) -> Result<T, HarnessError> {
    result.map_err(|source| HarnessError::File { path: path.display().to_string(), source })
}

/// Tells whether some message contains that of a deeper cause, so that a reader of the chain reads it twice.
#[must_use]
pub fn repeats_a_cause(error: &dyn std::error::Error) -> bool {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    let parts: Vec<String> =
        std::iter::once(error.to_string()).chain(causes.map(ToString::to_string)).collect();
    parts.iter().enumerate().any(|(i, part)| parts[i + 1..].iter().any(|cause| part.contains(cause)))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind::NotFound;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Failed {
        #[error("GPU 3: cannot create")]
        Create(#[source] std::num::ParseIntError),
        #[error("GPU 3: {0}")]
        Twice(#[source] std::num::ParseIntError),
        #[error(transparent)]
        As(std::num::ParseIntError),
    }

    #[test]
    fn a_message_that_contains_its_cause_is_found() {
        let inner = || "x".parse::<u8>().unwrap_err();
        assert!(repeats_a_cause(&Failed::Twice(inner())));
        assert!(!repeats_a_cause(&Failed::Create(inner())));
        assert!(!repeats_a_cause(&Failed::As(inner())));
    }

    #[test]
    fn no_message_repeats_its_cause_and_debug_shows_the_chain() {
        let program = "sbatch".to_owned();
        let start = HarnessError::Start { program, source: NotFound.into() };
        let file = HarnessError::File { path: "slurm.conf".to_owned(), source: NotFound.into() };
        for (error, shown) in
            [(start, "cannot run sbatch: entity not found"), (file, "slurm.conf: entity not found")]
        {
            assert!(!repeats_a_cause(&error), "{error:?}");
            assert_eq!(format!("{error:?}"), shown);
        }
    }
}
