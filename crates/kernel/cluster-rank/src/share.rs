//! The part of the mix that a group of accounts may have.

/// Finds the most that counts of each group: the largest number that is at most a quarter of the sum of all totals, each
/// cut to it. With fewer than four groups, their equal share stands for the quarter.
#[expect(clippy::cast_precision_loss, reason = "there are few groups")]
pub(crate) fn even_share(totals: &[u32]) -> f64 {
    let groups = totals.iter().filter(|&&total| total > 0).count();
    let share = (1.0 / groups.max(1) as f64).max(0.25);
    let mut sorted: Vec<u32> = totals.to_vec();
    sorted.sort_unstable();
    let mut rest: f64 = sorted.iter().map(|&total| f64::from(total)).sum();
    let mut cut = 0.0;
    // From the largest group on: if `cut` groups are cut to `most`, most = share * (rest + cut * most).
    for &total in sorted.iter().rev() {
        let free = 1.0 - share * cut;
        let most = if free > 1e-9 { share * rest / free } else { f64::INFINITY };
        if f64::from(total) <= most && most.is_finite() {
            return most.max(f64::from(total));
        }
        rest -= f64::from(total);
        cut += 1.0;
        if share * cut >= 1.0 - 1e-9 {
            break;
        }
    }
    // The cut groups alone make up the whole: the smallest of them sets the measure.
    let smallest = sorted.iter().rev().filter(|&&total| total > 0).take(4).last();
    f64::from(smallest.copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(totals: &[u32]) -> Vec<f64> {
        let most = even_share(totals);
        let cut: Vec<f64> = totals.iter().map(|&total| f64::from(total).min(most)).collect();
        let sum: f64 = cut.iter().sum();
        cut.iter().map(|one| (1000.0 * one / sum).round() / 1000.0).collect()
    }

    #[test]
    fn no_group_has_more_than_a_quarter_or_its_equal_share() {
        assert_eq!(shares(&[7]), [1.0]);
        assert_eq!(shares(&[1000, 10]), [0.5, 0.5]);
        assert_eq!(shares(&[1000, 0, 1000, 10]), [0.333, 0.0, 0.333, 0.333]);
        assert_eq!(shares(&[1000, 10, 10, 10]), [0.25; 4]);
        assert_eq!(shares(&[1000, 10, 10, 10, 10, 10]), [0.25, 0.15, 0.15, 0.15, 0.15, 0.15]);
        assert_eq!(shares(&[5, 5, 5, 5, 5]), [0.2; 5]);
        assert_eq!(shares(&[900, 900, 900, 900, 900, 1]), [0.2, 0.2, 0.2, 0.2, 0.2, 0.0]);
    }
}
