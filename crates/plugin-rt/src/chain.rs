//! An error and its causes on one line.

use std::error::Error;
use std::fmt;

/// Shows an error with all its sources as `a: b: c`, on one line: line breaks become spaces.
///
/// An error's own `Display` must not repeat its source. A cause that the line ends with already is not said again: some
/// errors of other crates do repeat it.
pub struct Chain<'a>(pub &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = self.0.to_string();
        let mut next = self.0.source();
        while let Some(cause) = next {
            let said = cause.to_string();
            if !line.ends_with(&said) {
                line.push_str(": ");
                line.push_str(&said);
            }
            next = cause.source();
        }
        f.write_str(&line.replace(['\n', '\r'], " "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("GPU 3: cannot create GPU instance")]
    struct Outer(#[source] std::num::ParseIntError);

    #[test]
    fn shows_every_cause_once() {
        let inner = "x".parse::<u8>().unwrap_err();
        assert_eq!(
            Chain(&Outer(inner)).to_string(),
            "GPU 3: cannot create GPU instance: invalid digit found in string"
        );
    }

    #[derive(Debug, thiserror::Error)]
    #[error("reading\nthe journal: {0}")]
    struct Repeats(#[source] std::num::ParseIntError);

    #[test]
    fn a_cause_that_is_said_already_is_not_repeated() {
        let inner = "x".parse::<u8>().unwrap_err();
        assert_eq!(Chain(&Repeats(inner)).to_string(), "reading the journal: invalid digit found in string");
    }
}
