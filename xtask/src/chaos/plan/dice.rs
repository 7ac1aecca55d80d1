//! Random numbers that a seed repeats.

/// SplitMix64 (Steele, Lea and Flood, 2014): every seed is a good one.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which must not be 0.
    pub(super) fn below(&mut self, limit: u32) -> u32 {
        let number = self.next() % u64::from(limit.max(1));
        u32::try_from(number).unwrap_or_default()
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(high - low + 1)
    }

    /// True in so many percent of all cases.
    pub(super) fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// Draws one of these.
    pub(super) fn one_of<T: Copy, const N: usize>(&mut self, all: [T; N]) -> T {
        all[self.index(N)]
    }

    /// An index of a list of this length.
    pub(super) fn index(&mut self, length: usize) -> usize {
        let limit = u32::try_from(length).unwrap_or(u32::MAX);
        usize::try_from(self.below(limit)).unwrap_or_default()
    }
}
