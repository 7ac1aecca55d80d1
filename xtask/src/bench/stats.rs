//! Median and spread.

/// Median and quartiles of measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    /// First quartile.
    pub(super) low: f64,
    /// Third quartile.
    pub(super) high: f64,
    /// How many measurements.
    pub(super) count: usize,
}

impl Spread {
    /// Computes them from at least one measurement; `None` of none.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        // Nearest rank: a measurement that was taken, not one between two.
        let at = |quarters: usize| sorted[(last * quarters + 2) / 4];
        Some(Self { median: at(2), low: at(1), high: at(3), count: sorted.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[f64], expect: Option<(f64, f64, f64)>) {
        assert_eq!(Spread::of(values).map(|s| (s.low, s.median, s.high)), expect, "{values:?}");
    }

    #[test]
    fn quartiles_are_measurements() {
        check(&[], None);
        check(&[3.0], Some((3.0, 3.0, 3.0)));
        check(&[5.0, 1.0, 4.0, 2.0, 3.0], Some((2.0, 3.0, 4.0)));
        check(&[1.0, 2.0, 3.0, 100.0], Some((2.0, 3.0, 3.0)));
    }
}
