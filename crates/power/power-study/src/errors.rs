//! How wrong predictions are.

/// Mean errors of predictions, as fractions of the measured value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// Of the sum of RPerf.
    pub throughput: f64,
    /// Of the least RPerf.
    pub fairness: f64,
}

impl Errors {
    /// The mean of both, by which bases are compared.
    #[must_use]
    pub fn mean(self) -> f64 {
        (self.throughput + self.fairness) / 2.0
    }
}
