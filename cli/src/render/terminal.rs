//! The terminal that a person reads in.

use std::io::{IsTerminal as _, stdout};

use ratatui::crossterm::terminal::size;

/// Columns where nobody tells: in a pipe, in a file.
const USUAL: usize = 80;

/// Columns and lines of the terminal that stdout is; `None` where it is none.
pub(crate) fn screen() -> Option<(usize, usize)> {
    let known = stdout().is_terminal().then(size)?.ok()?;
    Some((usize::from(known.0), usize::from(known.1))).filter(|(columns, lines)| *columns > 0 && *lines > 0)
}

/// Columns for text on stdout.
pub(crate) fn width() -> usize {
    screen().map_or(USUAL, |(columns, _)| columns)
}
