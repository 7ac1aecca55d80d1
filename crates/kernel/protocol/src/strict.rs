//! Strict reading: bounded texts, plain numbers, and the error that names the offending part.
//!
//! Requests, placements and plans stand where users or administrators can write, so their parsers accept only what
//! Tessera writes, and never panic.

use crate::time::digits;

/// Longest request or placement that is read, bytes: enough for thousands of nodes, too little to exhaust slurmctld's
/// memory.
pub const MAX_LEN: usize = 1 << 20;

/// A text that is not of the form expected, with the first part that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} in {excerpt:?}")]
pub struct WireError {
    /// Description of the error.
    what: &'static str,
    /// The first 40 characters of the offending part.
    excerpt: String,
}

impl WireError {
    pub(crate) fn new(what: &'static str, part: &str) -> Self {
        Self { what, excerpt: part.chars().take(40).collect() }
    }
}

pub(crate) fn bad<T>(what: &'static str, part: &str) -> Result<T, WireError> {
    Err(WireError::new(what, part))
}

/// Tells whether a text is a name of 1 to `most` letters, digits, `.`, `_` and `-`.
pub(crate) fn is_word(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// The text after `v1 `.
pub(crate) fn versioned(text: &str) -> Result<&str, WireError> {
    if text.len() > MAX_LEN {
        return bad("too long", text);
    }
    text.strip_prefix("v1 ").map_or_else(|| bad("not version 1", text), Ok)
}

/// A plain decimal number without sign, from `least` to `most`, both included.
pub(crate) fn number<T: TryFrom<u64>>(text: &str, least: u64, most: u64) -> Result<T, WireError> {
    match digits(text, 10).filter(|v| (least..=most).contains(v)).map(T::try_from) {
        Some(Ok(value)) => Ok(value),
        _ => bad("a number out of range", text),
    }
}
