//! Rows of one quantity, their error and their rival.

/// A number of the paper and ours.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperRow {
    /// Subject of the row, such as `W1 on P100`.
    pub label: String,
    /// As printed; `None`: the paper shows it without a number, or not at all.
    pub paper: Option<f64>,
    /// Ours.
    pub ours: f64,
    /// Least and most of ours over equally good assumptions.
    pub spread: Option<(f64, f64)>,
}

/// Origin of our numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Parameters were chosen so that these rows agree.
    Fitted,
    /// Nothing was chosen with these rows in view.
    Predicted,
    /// The rows could not come out otherwise.
    ByConstruction,
    /// Public measurements went in, and no number of the paper was to be met.
    Measured,
}

/// How far apart two numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Their difference: for percentages.
    Points,
    /// The logarithm of their ratio, printed as percent: for times, rates and ratios.
    Ratio,
}

/// The kind of agreement, as it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// See [`Basis::Fitted`].
    Fitted,
    /// Predicted, nearer than the best constant, and near.
    Predicted,
    /// See [`Basis::ByConstruction`].
    ByConstruction,
    /// Predicted, and no better than a constant or too far away.
    Missed,
    /// See [`Basis::Measured`].
    Measured,
    /// Ours alone: the paper prints no number.
    NotPrinted,
}

/// The best constant for a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constant {
    /// The constant.
    pub value: f64,
    /// Error of the constant over the rows.
    pub error: f64,
}

/// Rows of one quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct RowGroup {
    /// The quantity, such as `CASE on P100`.
    pub what: String,
    /// Origin of our number.
    pub basis: Basis,
    /// How errors are counted.
    pub measure: Measure,
    /// Farthest that the mean of ours may be from the paper's for a prediction: points, or hundredths of the logarithm.
    pub within: f64,
    /// The rows.
    pub rows: Vec<PaperRow>,
}

impl PaperRow {
    /// Makes a row without a spread.
    #[must_use]
    pub fn new(label: impl Into<String>, paper: impl Into<Option<f64>>, ours: f64) -> Self {
        Self { label: label.into(), paper: paper.into(), ours, spread: None }
    }
}

impl Measure {
    /// Returns how far `value` is from `paper`, with its sign: points, or hundredths of the logarithm.
    #[must_use]
    pub fn distance(self, value: f64, paper: f64) -> f64 {
        match self {
            Self::Points => value - paper,
            Self::Ratio => 100.0 * (value / paper).ln(),
        }
    }
}

impl RowGroup {
    /// Lists ours and the paper's number of the rows that have both.
    #[must_use]
    pub fn pairs(&self) -> Vec<(f64, f64)> {
        self.rows.iter().filter_map(|row| Some((row.ours, row.paper?))).collect()
    }

    /// Computes the root of the mean square distance over the rows that the paper prints; `None` if it prints none.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        let pairs = self.pairs();
        (!pairs.is_empty()).then(|| rms(self.measure, &pairs))
    }

    /// Computes how far the mean of ours is from the mean of the paper's; `None` if the paper prints no row.
    #[must_use]
    pub fn bias(&self) -> Option<f64> {
        let pairs = self.pairs();
        let n = f64::from(u32::try_from(pairs.len()).ok()?);
        let distances = pairs.iter().map(|(ours, paper)| self.measure.distance(*ours, *paper));
        (n > 0.0).then(|| distances.sum::<f64>() / n)
    }

    /// Finds the constant with the least error over the rows; `None` for fewer than two printed rows.
    #[must_use]
    pub fn constant(&self) -> Option<Constant> {
        let papers: Vec<f64> = self.pairs().into_iter().map(|(_, paper)| paper).collect();
        if papers.len() < 2 {
            return None;
        }
        let n = f64::from(u32::try_from(papers.len()).ok()?);
        let value = match self.measure {
            Measure::Points => papers.iter().sum::<f64>() / n,
            Measure::Ratio => (papers.iter().map(|paper| paper.ln()).sum::<f64>() / n).exp(),
        };
        let pairs: Vec<(f64, f64)> = papers.into_iter().map(|paper| (value, paper)).collect();
        Some(Constant { value, error: rms(self.measure, &pairs) })
    }

    /// Names the kind of agreement.
    #[must_use]
    pub fn kind(&self) -> Agreement {
        let (Some(error), Some(bias)) = (self.error(), self.bias()) else { return Agreement::NotPrinted };
        let rival = self.constant().map_or(f64::INFINITY, |constant| constant.error);
        match self.basis {
            Basis::Fitted => Agreement::Fitted,
            Basis::ByConstruction => Agreement::ByConstruction,
            Basis::Measured => Agreement::Measured,
            Basis::Predicted if error < rival && bias.abs() <= self.within => Agreement::Predicted,
            Basis::Predicted => Agreement::Missed,
        }
    }
}

impl Agreement {
    /// Returns the word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fitted => "fitted",
            Self::Predicted => "predicted",
            Self::ByConstruction => "by construction",
            Self::Missed => "missed",
            Self::Measured => "measured",
            Self::NotPrinted => "ours alone",
        }
    }
}

fn rms(measure: Measure, pairs: &[(f64, f64)]) -> f64 {
    let squares = pairs.iter().map(|(value, paper)| measure.distance(*value, *paper).powi(2));
    let n = f64::from(u32::try_from(pairs.len()).unwrap_or(u32::MAX));
    (squares.sum::<f64>() / n).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(rows: &[(f64, f64)], measure: Measure) -> RowGroup {
        let row = |(at, (paper, ours)): (usize, &(f64, f64))| PaperRow::new(at.to_string(), *paper, *ours);
        let rows = rows.iter().enumerate().map(row).collect();
        RowGroup { what: String::new(), basis: Basis::Predicted, measure, within: 10.0, rows }
    }

    #[test]
    fn a_model_that_is_no_better_than_a_constant_has_missed() {
        let varies = [(10.0, 11.0), (20.0, 19.0), (30.0, 31.0)];
        let good = group(&varies, Measure::Points);
        assert_eq!((good.error(), good.constant().unwrap().value), (Some(1.0), 20.0));
        assert!((good.constant().unwrap().error - (200.0_f64 / 3.0).sqrt()).abs() < 1e-9);
        assert_eq!(good.kind(), Agreement::Predicted);
        let flat = group(&[(10.0, 20.0), (20.0, 20.0), (30.0, 20.0)], Measure::Points);
        assert_eq!(flat.kind(), Agreement::Missed);
    }

    #[test]
    fn one_row_has_no_rival_but_may_be_too_far_away() {
        assert_eq!(group(&[(2.0, 2.1)], Measure::Ratio).kind(), Agreement::Predicted);
        assert_eq!(group(&[(2.0, 2.3)], Measure::Ratio).kind(), Agreement::Missed);
        assert_eq!(group(&[(2.0, 2.1)], Measure::Ratio).constant(), None);
    }

    /// Nearer in each row than the constant, and yet all of them too high.
    #[test]
    fn a_constant_bias_counts_as_missed() {
        let high = group(&[(10.0, 25.0), (50.0, 65.0), (90.0, 105.0)], Measure::Points);
        assert!(high.error().unwrap() < high.constant().unwrap().error);
        assert_eq!(high.kind(), Agreement::Missed);
    }

    #[test]
    fn rows_that_the_paper_does_not_print_are_ours_alone() {
        let mut group = group(&[(1.0, 1.0)], Measure::Ratio);
        group.rows[0].paper = None;
        assert_eq!((group.kind(), group.error()), (Agreement::NotPrinted, None));
    }
}
