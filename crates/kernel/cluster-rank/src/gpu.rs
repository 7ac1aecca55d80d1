//! The part of one GPU that is expected to stay unused.

/// Draws after which what is left of a GPU counts as unused.
pub const GPU_DRAWS: usize = 30;

/// Computes for 0 to 100 hundredths of a GPU, in GPUs, what is expected to be left after so many draws.
///
/// A class is a size in hundredths, 1 to 100, with the probability that a draw is of it; others are ignored. The
/// probabilities add up to at most 1. A draw that does not fit, and one of no class, takes nothing.
#[must_use]
pub fn unused_of_gpu(classes: &[(usize, f64)], draws: usize) -> Vec<f64> {
    let mut of_size = [0.0; 101];
    classes
        .iter()
        .for_each(|&(size, p)| of_size[size.min(100)] += if (1..=100).contains(&size) { p } else { 0.0 });
    let sizes: Vec<(usize, f64)> = of_size.into_iter().enumerate().filter(|&(_, p)| p > 0.0).collect();
    let mut unused: Vec<f64> = (0..=100_u8).map(|left| f64::from(left) / 100.0).collect();
    for _ in 0..draws {
        // From the largest: a smaller one must still be that of one draw fewer.
        for left in (0..=100).rev() {
            let before = unused[left];
            let fit = sizes.iter().take_while(|&&(size, _)| size <= left);
            unused[left] += fit.map(|&(size, p)| p * (unused[left - size] - before)).sum::<f64>();
        }
    }
    unused
}
