//! The position of a set of vertices among all sets of its size.

use crate::limits::MOST_FREE;

/// Positions of sets among those of their size, in the ascending order of [`subsets`](super::subsets::subsets).
///
/// A position is the sum of two numbers from tables: one for the set's low byte, and one for its high byte and the number
/// of vertices in the low one. So each part of a set takes one addition.
pub(super) struct SetPositions {
    low: [u16; 256],
    high: [[u16; 256]; 9],
    /// Vertices in a byte.
    count: [u8; 256],
    /// The parts of each byte's set one after the other, by size.
    parts: [u8; 6561],
    /// Position at which the parts of a set begin that have so many vertices.
    from: [[u16; 10]; 256],
}

/// The positions, worked out by the compiler.
pub(super) static POSITIONS: SetPositions = SetPositions::new();

impl SetPositions {
    const fn new() -> Self {
        let mut choose = [[0_u16; MOST_FREE + 2]; MOST_FREE];
        let mut n = 0;
        while n < MOST_FREE {
            choose[n][0] = 1;
            let mut k = 1;
            while k <= n {
                choose[n][k] = choose[n - 1][k - 1] + choose[n - 1][k];
                k += 1;
            }
            n += 1;
        }
        let mut positions = Self {
            low: [0; 256],
            high: [[0; 256]; 9],
            count: [0; 256],
            parts: [0; 6561],
            from: [[0; 10]; 256],
        };
        let mut half = 1_usize;
        while half < 256 {
            // A set's position is that of the set without its highest vertex, and the number of sets below that one.
            let top = half.ilog2() as usize;
            let (rest, n) = (half ^ 1 << top, half.count_ones() as usize);
            positions.count[half] = positions.count[rest] + 1;
            positions.low[half] = positions.low[rest] + choose[top][n];
            let mut below = 0;
            while below < 9 {
                positions.high[below][half] = positions.high[below][rest] + choose[8 + top][below + n];
                below += 1;
            }
            half += 1;
        }
        positions.list_parts();
        positions
    }

    #[expect(clippy::cast_possible_truncation, reason = "a part of a byte")]
    const fn list_parts(&mut self) {
        let (mut at, mut set) = (0, 0_usize);
        while set < 256 {
            let mut size = 0;
            while size < 9 {
                self.from[set][size] = at;
                let mut part = 0_usize;
                while part <= set {
                    if part & !set == 0 && self.count[part] as usize == size {
                        self.parts[at as usize] = part as u8;
                        at += 1;
                    }
                    part += 1;
                }
                size += 1;
            }
            self.from[set][9] = at;
            set += 1;
        }
    }

    /// The position of a set among those of its size.
    #[inline]
    pub(super) fn of(&self, mask: u32) -> usize {
        let (low, high) = ((mask & 0xff) as usize, (mask >> 8 & 0xff) as usize);
        usize::from(self.low[low]) + usize::from(self.high[usize::from(self.count[low])][high])
    }

    /// Folds `f` over the positions of each part of `mask` that has `size` vertices and of the rest of it; with
    /// `first`, only parts that have the lowest vertex of `mask`.
    #[inline]
    pub(super) fn parts<A>(
        &self,
        mask: u32,
        size: usize,
        first: bool,
        start: A,
        mut f: impl FnMut(A, usize, usize) -> A,
    ) -> A {
        let (low, high) = ((mask & 0xff) as usize, (mask >> 8 & 0xff) as usize);
        let (n_low, n_high) = (usize::from(self.count[low]), usize::from(self.count[high]));
        let lowest = if first { mask & mask.wrapping_neg() } else { 0 };
        let (with_low, with_high) = ((lowest & 0xff) as usize, (lowest >> 8) as usize);
        let mut all = start;
        let mut pairs = [(0_u16, 0_u16); 70];
        for in_low in size.saturating_sub(n_high)..=size.min(n_low) {
            let mut n_pairs = 0;
            for part in self.parts_of(high, size - in_low).iter().map(|p| usize::from(*p)) {
                if part & with_high == with_high {
                    pairs[n_pairs] = (self.high[in_low][part], self.high[n_low - in_low][high ^ part]);
                    n_pairs += 1;
                }
            }
            for part in self.parts_of(low, in_low).iter().map(|p| usize::from(*p)) {
                if part & with_low != with_low {
                    continue;
                }
                let (a, b) = (usize::from(self.low[part]), usize::from(self.low[low ^ part]));
                for (x, y) in &pairs[..n_pairs] {
                    all = f(all, a + usize::from(*x), b + usize::from(*y));
                }
            }
        }
        all
    }

    /// The parts of a byte's set that have `size` vertices.
    fn parts_of(&self, set: usize, size: usize) -> &[u8] {
        let [from, to] = [size, size + 1].map(|s| usize::from(self.from[set][s]));
        &self.parts[from..to]
    }
}

#[cfg(test)]
mod tests {
    use super::super::subsets::subsets;
    use super::*;

    #[test]
    fn a_set_is_found_at_its_position() {
        let positions = &POSITIONS;
        for k in 0..=MOST_FREE {
            assert!(subsets(MOST_FREE, k).enumerate().all(|(at, set)| positions.of(set) == at), "{k}");
        }
        for (mask, size, first) in
            [(0xf0f3_u32, 4, false), (0x3ff, 5, true), (0xfe00, 3, true), (0xff, 8, false)]
        {
            let sub = subsets(MOST_FREE, size).filter(|s| s & !mask == 0);
            let keep = |s: &u32| !first || s & (mask & mask.wrapping_neg()) != 0;
            let mut expect: Vec<_> =
                sub.filter(keep).map(|s| (positions.of(s), positions.of(mask ^ s))).collect();
            let mut found = positions.parts(mask, size, first, Vec::new(), |mut all, a, b| {
                all.push((a, b));
                all
            });
            expect.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expect);
        }
    }
}
