//! An error and its causes on one line.

use std::error::Error;
use std::fmt;

/// Shows an error with all its sources as `a: b: c`, for a log that is read by line.
///
/// An error's own `Display` must not repeat its source.
pub struct Chain<'a>(pub &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
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
}
