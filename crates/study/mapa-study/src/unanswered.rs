//! Why an exact search has no answer.

use mapa::NoMatch;

use crate::limits::MOST_PLACED_LISTED;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// The question has none.
    #[error(transparent)]
    NoMatch(#[from] NoMatch),
    /// The search for an edge list under Equation 2 used up its steps before it found any match.
    #[error("no match found under mapa2021 in {MOST_PLACED_LISTED} steps: use the default model")]
    OutOfSteps,
}
