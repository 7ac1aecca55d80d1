//! A paper's numbers beside ours, and what kind of agreement each row is.
//!
//! # Approach
//! Rows of a table form groups. All rows of a group are of one quantity, so that one constant could stand for them. A group has an
//! error over its rows, in the measure that fits the quantity. The constant with the least error is its rival: what nobody needs a
//! model for. A group that was predicted counts as *missed* if the constant is as good, or if the mean of ours is too far
//! from the paper's. One row alone has no rival, because a constant meets any single number; there only the distance counts.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod group;
mod markdown;

pub use group::{Agreement, Basis, Constant, Measure, PaperRow, RowGroup};
pub use markdown::markdown;

/// A table or figure of a paper.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperTable {
    /// Name in the paper, such as `Table 4`.
    pub name: &'static str,
    /// Quantity that it shows, with the unit.
    pub title: String,
    /// The rows, by quantity.
    pub groups: Vec<RowGroup>,
    /// Sentences below the table.
    pub notes: Vec<String>,
}
