//! Prints an error with its causes: the one printer for the plugins, the CLI and the harness.
//!
//! No error's `Display` repeats its source; `lab::repeats_a_cause` is what tests ask. An error either shows a message of its
//! own and returns its source, or is transparent and is its source.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

use std::error::Error;
use std::fmt;
use std::iter::successors;

/// Shows an error with all its sources as `a: b: c`, on one line: line breaks become spaces. For logs.
pub struct Chain<'a>(pub &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&with_causes(self.0).replace(['\n', '\r'], " "))
    }
}

/// An error with all its sources as `a: b: c`. Line breaks stay. For a terminal.
#[must_use]
pub fn with_causes(error: &dyn Error) -> String {
    parts(error).join(": ")
}

/// The messages, outermost first.
fn parts(error: &dyn Error) -> Vec<String> {
    let causes = successors(error.source(), |&cause| cause.source());
    std::iter::once(error.to_string()).chain(causes.map(ToString::to_string)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Failed {
        #[error("GPU 3: cannot create\nGPU instance")]
        Create(#[source] std::num::ParseIntError),
        #[error(transparent)]
        As(std::num::ParseIntError),
    }

    fn inner() -> std::num::ParseIntError {
        "x".parse::<u8>().unwrap_err()
    }

    #[test]
    fn every_cause_is_shown_and_a_log_gets_one_line() {
        let error = Failed::Create(inner());
        let (line, lines) = ("GPU 3: cannot create GPU instance", "GPU 3: cannot create\nGPU instance");
        assert_eq!(Chain(&error).to_string(), format!("{line}: invalid digit found in string"));
        assert_eq!(with_causes(&error), format!("{lines}: invalid digit found in string"));
        assert_eq!(with_causes(&Failed::As(inner())), "invalid digit found in string");
    }
}
