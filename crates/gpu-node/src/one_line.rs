//! Errors as a report or the journal keeps them.

use plugin_rt::Chain;

/// An error and its sources on one line, even where the driver's own words have several.
pub(crate) fn one_line(error: &dyn std::error::Error) -> String {
    Chain(error).to_string().replace('\n', " ")
}
