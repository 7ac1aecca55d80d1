//! Linear least squares by singular value decomposition.
//!
//! The decomposition is one-sided Jacobi (Hestenes 1958): rotate pairs of columns until all are orthogonal; their lengths
//! are the singular values. It is slow for large matrices and exact for small ones, and the matrices here have up to six
//! columns. nalgebra 0.34 is no alternative: where columns depend on each other, the product of its three factors was
//! off by up to 1.2 in 2000 random 24 x 6 matrices with entries from -1 to 1 (dimforge/nalgebra#1172).

use crate::fitted::Fitted;

/// Sweeps over all pairs of columns; six columns need about five.
const MOST_SWEEPS: usize = 60;

/// The coefficients with the least sum of squared errors; of several such, those with the least norm.
///
/// Singular values up to machine epsilon times the larger of rows and columns, relative to the largest, count as 0.
/// `None` where a number is not finite.
pub(crate) fn solve(rows: &[&[f64]], target: &[f64]) -> Option<Fitted> {
    let n = rows.first()?.len();
    if !rows.iter().copied().flatten().chain(target).all(|v| v.is_finite()) {
        return None;
    }
    let columns: Vec<Vec<f64>> = (0..n).map(|c| rows.iter().map(|row| row[c]).collect()).collect();
    let pairs = decompose(columns);
    let largest = pairs.iter().map(|pair| dot(&pair.scaled, &pair.scaled).sqrt()).fold(0.0, f64::max);
    let cut_off = largest * f64::EPSILON * as_f64(rows.len().max(n));
    let (mut coefficients, mut rank) = (vec![0.0; n], 0);
    for Pair { scaled, right } in &pairs {
        let square = dot(scaled, scaled);
        if square.sqrt() > cut_off {
            let along = dot(scaled, target) / square;
            coefficients.iter_mut().zip(right).for_each(|(c, v)| *c += along * v);
            rank += 1;
        }
    }
    coefficients.iter().all(|c| c.is_finite()).then_some(Fitted { coefficients, runs: rows.len(), rank })
}

/// One singular value with its vectors.
struct Pair {
    /// The left vector, its length the singular value.
    scaled: Vec<f64>,
    /// The right vector, length 1.
    right: Vec<f64>,
}

/// The singular value decomposition of a matrix with these columns, in no order.
fn decompose(columns: Vec<Vec<f64>>) -> Vec<Pair> {
    let n = columns.len();
    let unit = |at: usize| (0..n).map(|c| if c == at { 1.0 } else { 0.0 }).collect();
    let pair = |(at, scaled): (usize, Vec<f64>)| Pair { scaled, right: unit(at) };
    let mut pairs: Vec<Pair> = columns.into_iter().enumerate().map(pair).collect();
    for _ in 0..MOST_SWEEPS {
        let mut is_done = true;
        for p in 0..n {
            let (head, tail) = pairs.split_at_mut(p + 1);
            tail.iter_mut().for_each(|q| is_done &= !orthogonalize(&mut head[p], q));
        }
        if is_done {
            break;
        }
    }
    pairs
}

/// Rotates two columns until they are orthogonal. False if they were.
fn orthogonalize(p: &mut Pair, q: &mut Pair) -> bool {
    let (pp, qq, pq) = (dot(&p.scaled, &p.scaled), dot(&q.scaled, &q.scaled), dot(&p.scaled, &q.scaled));
    let rounding = f64::EPSILON * as_f64(p.scaled.len());
    if pq.abs() <= rounding * (pp * qq).sqrt() {
        return false;
    }
    let half = (qq - pp) / (2.0 * pq);
    let tangent = half.signum() / (half.abs() + half.hypot(1.0));
    let cosine = 1.0 / tangent.hypot(1.0);
    let sine = cosine * tangent;
    let rotate = |(a, b): (&mut f64, &mut f64)| {
        (*a, *b) = (cosine * *a - sine * *b, sine * *a + cosine * *b);
    };
    p.scaled.iter_mut().zip(&mut q.scaled).for_each(rotate);
    p.right.iter_mut().zip(&mut q.right).for_each(rotate);
    true
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// A count as a number to calculate with.
#[expect(clippy::cast_precision_loss, reason = "counts of runs are far below 2^52")]
pub(crate) fn as_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dependent_columns_share_their_coefficient() {
        let rows: [&[f64]; 3] = [&[1.0, 1.0], &[2.0, 2.0], &[3.0, 3.0]];
        let fitted = solve(&rows, &[2.0, 4.0, 6.0]).unwrap();
        assert_eq!((fitted.rank, fitted.runs), (1, 3));
        assert!(fitted.coefficients.iter().all(|c| (c - 1.0).abs() < 1e-12), "{fitted:?}");
        let zero: [&[f64]; 2] = [&[0.0], &[0.0]];
        assert_eq!(solve(&zero, &[1.0, 1.0]).map(|f| (f.rank, f.coefficients)), Some((0, vec![0.0])));
    }

    /// Any rows in which some columns are sums of others: the rank is that of the others, the residual is orthogonal to
    /// every column (it is least), and so are the coefficients to the null space (their norm is least).
    fn check(values: &[f64], target: &[f64], columns: usize, dependent: usize) -> Result<(), TestCaseError> {
        let (free, n) = (columns - dependent, target.len());
        let row = |r: usize| {
            let own = &values[r * free..(r + 1) * free];
            let sums = (0..dependent).map(|d| own[d % free] + 0.5 * own[(d + 1) % free]);
            own.iter().copied().chain(sums).collect::<Vec<f64>>()
        };
        let rows: Vec<Vec<f64>> = (0..n).map(row).collect();
        let rows: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
        let fitted = solve(&rows, target).unwrap();
        prop_assert_eq!((fitted.rank, fitted.runs), (free, n));
        let rest: Vec<f64> = rows.iter().zip(target).map(|(row, y)| y - fitted.of(row)).collect();
        for column in 0..columns {
            let along: f64 = rows.iter().zip(&rest).map(|(row, rest)| row[column] * rest).sum();
            prop_assert!(along.abs() < 1e-8, "column {}: {}", column, along);
        }
        for d in 0..dependent {
            let mut null = vec![0.0; columns];
            null[free + d] = -1.0;
            null[d % free] += 1.0;
            null[(d + 1) % free] += 0.5;
            prop_assert!(fitted.of(&null).abs() < 1e-8, "{:?}", fitted);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn least_squares_and_least_norm(
            values in proptest::collection::vec(-1.0..1.0_f64, 24 * 6),
            target in proptest::collection::vec(0.0..1.0_f64, 24),
            dependent in 0..4_usize,
        ) {
            check(&values, &target, 6, dependent)?;
        }
    }

    #[test]
    fn numbers_that_are_not_finite_have_no_solution() {
        assert_eq!(solve(&[&[f64::INFINITY], &[1.0]], &[1.0, 1.0]), None);
        assert_eq!(solve(&[], &[]), None);
    }
}
