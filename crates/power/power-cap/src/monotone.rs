//! Isotonic regression: more power never makes an application slower.

/// Replaces `values` by the nearest sequence, in least squares, that never falls: pool adjacent violators.
pub fn never_falling(values: &mut [f64]) {
    // Almost every sequence rises already.
    if values.is_sorted() {
        return;
    }
    // Blocks of pooled neighbours: sum and count.
    let mut blocks: Vec<(f64, u32)> = Vec::with_capacity(values.len());
    let mean = |(sum, count): (f64, u32)| sum / f64::from(count);
    for value in values.iter() {
        let mut block = (*value, 1);
        while let Some(before) = blocks.pop_if(|before| mean(*before) > mean(block)) {
            block = (before.0 + block.0, before.1 + block.1);
        }
        blocks.push(block);
    }
    let pooled = blocks.into_iter().flat_map(|block| (0..block.1).map(move |_| mean(block)));
    values.iter_mut().zip(pooled).for_each(|(value, pooled)| *value = pooled);
}

#[cfg(test)]
mod tests {
    use super::never_falling;
    use proptest::prelude::*;

    fn pooled(values: &[f64]) -> Vec<f64> {
        let mut values = values.to_vec();
        never_falling(&mut values);
        values
    }

    #[test]
    fn neighbours_that_fall_share_their_mean() {
        assert_eq!(pooled(&[1.0, 2.0, 3.0]), [1.0, 2.0, 3.0]);
        assert_eq!(pooled(&[1.0, 3.0, 2.0, 4.0]), [1.0, 2.5, 2.5, 4.0]);
        assert_eq!(pooled(&[3.0, 2.0, 1.0]), [2.0, 2.0, 2.0]);
        assert_eq!(pooled(&[]), [0.0; 0]);
    }

    proptest! {
        /// The projection onto a convex cone: the rest is orthogonal to it, and to no sequence that never falls closer.
        #[test]
        fn the_nearest_sequence_that_never_falls(
            values in proptest::collection::vec(-1.0..1.0_f64, 6),
            mut other in proptest::collection::vec(-1.0..1.0_f64, 6),
        ) {
            let near = pooled(&values);
            prop_assert!(near.is_sorted());
            other.sort_by(f64::total_cmp);
            let along = |of: &[f64]| -> f64 {
                values.iter().zip(&near).zip(of).map(|((v, n), o)| (v - n) * o).sum()
            };
            prop_assert!(along(&near).abs() < 1e-12 && along(&other) < 1e-12);
        }
    }
}
