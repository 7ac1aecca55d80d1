//! Random choices that a seed repeats on every machine.

/// Steele, Lea and Flood's `SplitMix64` (OOPSLA '14).
#[derive(Clone)]
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Draw {
        Draw(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws a number below `n`; 0 if `n` is 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        let number = (u128::from(self.next()) * n as u128) >> 64;
        usize::try_from(number).unwrap_or(0)
    }

    /// Draws from the exponential distribution with mean 1 (inverse transform).
    pub(crate) fn exponential(&mut self) -> f64 {
        -(1.0 - self.uniform()).ln()
    }

    /// Draws a number from 0 to 1, without 1.
    pub(crate) fn uniform(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let drawn = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        drawn
    }

    /// Draws an order of `0..n`, each as likely as the others (Fisher and Yates).
    pub(crate) fn order<T: TryFrom<usize> + Default>(&mut self, n: usize) -> Vec<T> {
        let mut order: Vec<T> = (0..n).map(|at| T::try_from(at).unwrap_or_default()).collect();
        for at in (1..n).rev() {
            order.swap(at, self.below(at + 1));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_those_of_splitmix64() {
        let mut draw = Draw::new(1_234_567);
        assert_eq!([draw.next(), draw.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
        assert_eq!(draw.below(0), 0);
        let mut seen = [false; 5];
        (0..100).for_each(|_| seen[draw.below(5)] = true);
        assert_eq!(seen, [true; 5]);
    }
}
