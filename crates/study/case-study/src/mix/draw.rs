//! Random choices that a seed repeats on every machine.

/// Steele, Lea and Flood's `SplitMix64` (OOPSLA '14).
pub(super) struct Draw(u64);

impl Draw {
    pub(super) fn new(seed: u64) -> Draw {
        Draw(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, 0 if there is none.
    fn below(&mut self, n: usize) -> usize {
        let number = (u128::from(self.next()) * n as u128) >> 64;
        usize::try_from(number).unwrap_or(0)
    }

    /// Draws an element of `pool`, each as likely as the others.
    pub(super) fn pick<'a, T>(&mut self, pool: &'a [T]) -> Option<&'a T> {
        let at = self.below(pool.len());
        pool.get(at)
    }

    /// Draws an element of `pool`, each as likely as its weight says.
    pub(super) fn weighed<'a, T>(&mut self, pool: &'a [(T, u32)]) -> Option<&'a T> {
        let total = pool.iter().map(|(_, weight)| *weight as usize).sum();
        let mut at = self.below(total);
        for (value, weight) in pool {
            match at.checked_sub(*weight as usize) {
                Some(left) => at = left,
                None => return Some(value),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_those_of_splitmix64() {
        let mut draw = Draw::new(1_234_567);
        assert_eq!([draw.next(), draw.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
        let mut seen = [false; 5];
        (0..100).for_each(|_| seen[*draw.pick(&[0, 1, 2, 3, 4]).unwrap()] = true);
        assert_eq!(seen, [true; 5]);
        assert!(draw.pick::<u8>(&[]).is_none() && draw.weighed::<u8>(&[]).is_none());
        let seldom = (0..1000).filter(|_| draw.weighed(&[('a', 1), ('b', 9)]) == Some(&'a')).count();
        assert!((60..140).contains(&seldom), "{seldom}");
    }
}
