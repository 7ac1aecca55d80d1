//! Output for people and programs: tables, pictures, colour.

pub(crate) mod colour;
pub(crate) mod hosts;
pub(crate) mod layout;
pub(crate) mod palette;
pub(crate) mod svg;
pub(crate) mod table;
pub(crate) mod terminal;

/// A text of others for a terminal: without control characters, which could move the cursor or change colours.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

pub(crate) fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
}

/// Writes bytes as GB with two decimals, rounded down.
pub(crate) fn gigabytes(bytes: u64) -> String {
    format!("{}.{:02}", bytes / 1_000_000_000, bytes / 10_000_000 % 100)
}
