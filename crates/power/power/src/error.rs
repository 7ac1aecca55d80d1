//! Errors of a model file.

use crate::basis::BasisError;
use crate::cap::CapError;
use crate::part::PartError;

/// Numbers the form of a model file. A change that an older release would misread gets the next one.
pub const FORMAT: u64 = 1;

/// Says why a file is no model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// Not JSON, or not these fields.
    #[error("not a power model: {0}")]
    Json(String),
    /// Written by another release.
    #[error("format {found} of the power model is unknown, expected {FORMAT}: fit the model again")]
    Format {
        /// The file's value; `null` if nothing.
        found: String,
    },
    /// A basis that this release does not know.
    #[error(transparent)]
    Basis(#[from] BasisError),
    /// No GPU model has this key.
    #[error("gpu: `{0}` is not a known GPU model")]
    Gpu(String),
    /// No cap.
    #[error(transparent)]
    Cap(#[from] CapError),
    /// No part.
    #[error(transparent)]
    Part(#[from] PartError),
    /// `caps_w` is empty or not ascending.
    #[error("caps_w is not ascending: {0:?}")]
    Caps(Vec<u32>),
    /// A row that the others need.
    #[error("{rows} has no row for {what}")]
    Missing {
        /// The field: `solo`, `corun` or `over95`.
        rows: &'static str,
        /// Part, what is beside it, cap.
        what: String,
    },
    /// A row that is there twice, has the wrong number of values, or belongs nowhere.
    #[error("{rows}: {what}")]
    Row {
        /// The field.
        rows: &'static str,
        /// Description of the error.
        what: String,
    },
}
