//! Coefficients of a linear model.

/// Holds coefficients of a linear model, and what they rest on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fitted {
    /// One per column.
    pub(crate) coefficients: Vec<f64>,
    /// Rows of the system: measurements.
    pub(crate) runs: usize,
    /// Columns that do not depend on others.
    pub(crate) rank: usize,
}

impl Fitted {
    /// Calculates the linear model's value.
    pub(crate) fn of(&self, terms: &[f64]) -> f64 {
        self.coefficients.iter().zip(terms).map(|(c, term)| c * term).sum()
    }
}

impl AsRef<[f64]> for Fitted {
    fn as_ref(&self) -> &[f64] {
        &self.coefficients
    }
}
