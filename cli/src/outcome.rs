//! How a command ends: with text for stdout, or with a failure.

use std::error::Error;
use std::fmt;
use std::io::Write as _;

use error_chain::with_causes;

/// Text for stdout and an exit status.
pub(crate) struct Outcome {
    /// Ends with a newline unless empty.
    pub(crate) text: String,
    /// 0, or 1 where the text itself says what is wrong.
    pub(crate) status: u8,
}

impl Outcome {
    pub(crate) fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), status: 0 }
    }

    pub(crate) fn json(value: &serde_json::Value, status: u8) -> Self {
        Self { text: format!("{value:#}\n"), status }
    }
}

/// Something that the user or the site can put right; for stderr.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None }
    }

    /// An error with its causes.
    pub(crate) fn of(error: &dyn Error) -> Self {
        Self::new(with_causes(error))
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Puts a part of the input before the message: `place: …`.
    pub(crate) fn within(self, place: impl fmt::Display) -> Self {
        Self { what: format!("{place}: {}", self.what), ..self }
    }

    /// Joins message and hint, if there is one line for both.
    pub(crate) fn in_a_line(&self) -> String {
        let hint = self.hint.as_ref().map(|hint| format!("; {hint}"));
        format!("{}{}", self.what(), hint.unwrap_or_default())
    }

    /// Returns the message without the hint.
    pub(crate) fn what(&self) -> &str {
        self.what.trim_end()
    }
}

/// Says something on stderr while a command goes on.
pub(crate) fn status(text: &str) {
    // A closed stderr is not an error.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "tessera: {}", self.what.trim_end())?;
        self.hint.as_ref().map_or(Ok(()), |hint| writeln!(f, "hint: {hint}"))
    }
}
