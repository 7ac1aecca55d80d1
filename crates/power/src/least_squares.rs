//! Linear least squares by singular value decomposition.

use nalgebra::{DMatrix, DVector, SVD};

/// Rounds after which the decomposition counts as not converging: a matrix of finite numbers takes a few per column.
const MOST_ROUNDS: usize = 10_000;

/// Coefficients of a linear model, and what they rest on.
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
    /// The linear model's value.
    pub(crate) fn of(&self, terms: &[f64]) -> f64 {
        self.coefficients.iter().zip(terms).map(|(c, t)| c * t).sum()
    }
}

/// The coefficients with the least sum of squared errors; of several such, those with the least norm.
///
/// Singular values up to machine epsilon times the larger of rows and columns, relative to the largest, count as 0.
/// `None` where a number is not finite.
pub(crate) fn solve(rows: &[&[f64]], target: &[f64]) -> Option<Fitted> {
    let columns = rows.first()?.len();
    let design = DMatrix::from_fn(rows.len(), columns, |r, c| rows[r][c]);
    let target = DVector::from_column_slice(target);
    if !design.iter().chain(target.iter()).all(|v| v.is_finite()) {
        return None;
    }
    let svd = SVD::try_new(design, true, true, f64::EPSILON, MOST_ROUNDS)?;
    let cut_off = svd.singular_values.max() * f64::EPSILON * as_f64(rows.len().max(columns));
    let coefficients = svd.solve(&target, cut_off).ok()?.as_slice().to_vec();
    let rank = svd.rank(cut_off);
    coefficients.iter().all(|c| c.is_finite()).then_some(Fitted { coefficients, runs: rows.len(), rank })
}

/// A count as a number to calculate with.
#[expect(clippy::cast_precision_loss, reason = "counts of runs are far below 2^52")]
pub(crate) fn as_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependent_columns_share_their_coefficient() {
        let rows: [&[f64]; 3] = [&[1.0, 1.0], &[2.0, 2.0], &[3.0, 3.0]];
        let fitted = solve(&rows, &[2.0, 4.0, 6.0]).unwrap();
        assert_eq!((fitted.rank, fitted.runs), (1, 3));
        assert!(fitted.coefficients.iter().all(|c| (c - 1.0).abs() < 1e-12), "{fitted:?}");
        let zero: [&[f64]; 2] = [&[0.0], &[0.0]];
        assert_eq!(solve(&zero, &[1.0, 1.0]).map(|f| (f.rank, f.coefficients)), Some((0, vec![0.0])));
    }

    #[test]
    fn numbers_that_are_not_finite_have_no_solution() {
        assert_eq!(solve(&[&[f64::INFINITY], &[1.0]], &[1.0, 1.0]), None);
        assert_eq!(solve(&[], &[]), None);
    }
}
