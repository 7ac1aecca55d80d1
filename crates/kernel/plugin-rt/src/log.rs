//! Log lines that go where the hosting Slurm process logs.
//!
//! Levels as the plugins use them: *error* means an admin must act, *info* a rare change of state, *verbose* a
//! decision, *debug* its report, *user* a line for the person at the terminal. Every line begins with `tessera: `.

use std::ffi::CString;
use std::fmt;

use crate::ffi;
pub use crate::level::Level;

/// Logs at [`Level::Error`].
pub fn error(text: impl fmt::Display) {
    write(Level::Error, text);
}

/// Logs at [`Level::Info`].
pub fn info(text: impl fmt::Display) {
    write(Level::Info, text);
}

/// Logs at [`Level::Verbose`].
pub fn verbose(text: impl fmt::Display) {
    write(Level::Verbose, text);
}

/// Logs at [`Level::Debug`].
pub fn debug(text: impl fmt::Display) {
    write(Level::Debug, text);
}

/// Logs at [`Level::User`].
pub fn user(text: impl fmt::Display) {
    write(Level::User, text);
}

fn write(level: Level, text: impl fmt::Display) {
    let line = line(&text);
    #[cfg(test)]
    if let Some(sink) = tests::SINK.get() {
        return sink(level, &line);
    }
    ffi::slurm_sink(level, &line);
}

/// Returns `tessera: ` and the text as one line: control characters become spaces, so a user's newline cannot
/// forge a log entry and an interior NUL cannot cut one.
fn line(text: &dyn fmt::Display) -> CString {
    let folded: String =
        format!("tessera: {text}").chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    CString::new(folded).unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::ffi::CStr;
    use std::sync::OnceLock;

    use super::*;

    /// Takes lines instead of Slurm's log.
    pub(crate) static SINK: OnceLock<fn(Level, &CStr)> = OnceLock::new();

    #[test]
    fn folds_newlines_and_nuls() {
        assert_eq!(line(&"job \"a\nb\0c%s\"").to_str().unwrap(), "tessera: job \"a b c%s\"");
    }
}
