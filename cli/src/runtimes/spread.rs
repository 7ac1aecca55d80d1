//! Median and spread of times.

/// Quartiles and extremes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spread {
    pub(crate) median: u64,
    /// First quartile.
    pub(crate) low: u64,
    /// Third quartile.
    pub(crate) high: u64,
    pub(crate) least: u64,
    pub(crate) most: u64,
    pub(crate) count: usize,
}

impl Spread {
    /// Computes them from ascending values; `None` of none. Nearest rank: each is a time that was measured.
    pub(crate) fn of(sorted: &[u64]) -> Option<Self> {
        let last = sorted.len().checked_sub(1)?;
        let at = |quarters: usize| sorted[(last * quarters + 2) / 4];
        Some(Self { median: at(2), low: at(1), high: at(3), least: at(0), most: at(4), count: sorted.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_measurements() {
        let quarters =
            |values: &[u64]| Spread::of(values).map(|s| [s.least, s.low, s.median, s.high, s.most]);
        assert_eq!(quarters(&[]), None);
        assert_eq!(quarters(&[3]), Some([3; 5]));
        assert_eq!(quarters(&[1, 2, 3, 4, 5]), Some([1, 2, 3, 4, 5]));
        assert_eq!(quarters(&[1, 2, 3, 100]), Some([1, 2, 3, 3, 100]));
    }
}
