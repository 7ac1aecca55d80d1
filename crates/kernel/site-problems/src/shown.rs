//! An error of a file with its place, for a terminal.

use site_config::ConfigError;

/// Three lines for a terminal: the error, the line of the file, and a caret under the place with the hint. There is no
/// newline at the end.
#[must_use]
pub fn shown(error: &ConfigError) -> String {
    let ConfigError { file, line, column, what, source_line, .. } = error;
    // Tabs stay tabs, so that the terminal shows the caret under the place.
    let pad: String =
        source_line.chars().take(column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    let underline = "~".repeat(error.width.saturating_sub(1));
    let hint = error.hint.as_ref().map(|h| format!("  hint: {h}")).unwrap_or_default();
    format!("{file}:{line}:{column}: {what}\n{source_line}\n{pad}^{underline}{hint}")
}
