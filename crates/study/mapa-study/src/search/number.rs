//! The numbers that sums over links are kept in.
//!
//! A sum is kept as what it lacks of the ideal, in which every edge is on the best link of the node. Its unit is the
//! greatest common divisor of the differences between links, so a byte holds the sums of most nodes and a register sixteen
//! of them. What a part lacks, the whole lacks too, so a search can drop a part that already lacks too much.

use super::bytes::{Bytes, at_most, lanes_of, least, least_of_each};
use super::subsets::bits;
use crate::limits::MOST_FREE;

/// Lack of a sum, in units. All widths are exact within [`Number::MOST`].
pub(super) trait Number: Copy {
    /// A number per vertex.
    type Row: Copy;
    /// No match, whatever is added.
    const NONE: Self;
    /// Nothing is lacking.
    const ZERO: Self;
    /// Most units that a sum may lack.
    const MOST: u32;
    /// Both together; more than fits is [`Number::NONE`].
    fn plus(self, other: Self) -> Self;
    /// True if it lacks less.
    fn ahead(self, other: Self) -> bool;
    /// The number that lacks so many units, at most [`Number::MOST`].
    fn of(units: u32) -> Self;
    /// The units that it lacks; `None` for [`Number::NONE`].
    fn units(self) -> Option<u32>;
    /// A row with these lanes.
    fn row(lanes: [Self; MOST_FREE]) -> Self::Row;
    /// All lanes of a row.
    fn lanes(row: Self::Row) -> [Self; MOST_FREE];
    /// Returns a lane of a row.
    fn lane(row: &Self::Row, v: usize) -> Self;
    /// Sums, lane by lane.
    fn rows_plus(a: Self::Row, b: Self::Row) -> Self::Row;
    /// Differences, lane by lane, of what is at least as much.
    fn rows_minus(a: Self::Row, b: Self::Row) -> Self::Row;
    /// The better ones, lane by lane.
    fn rows_most(a: Self::Row, b: Self::Row) -> Self::Row;
    /// The worse ones, lane by lane.
    fn rows_least(a: Self::Row, b: Self::Row) -> Self::Row;
    /// The best lane.
    fn best_lane(row: Self::Row) -> Self;
    /// The worst one of some lanes.
    fn worst_lane(row: Self::Row, lanes: u16) -> Self {
        let lanes_of = Self::lanes(row);
        let worse = |worst: Self, v: usize| if worst.ahead(lanes_of[v]) { lanes_of[v] } else { worst };
        bits(u32::from(lanes)).fold(Self::ZERO, worse)
    }
    /// The best lane of each of sixteen rows.
    fn best_of_each(rows: &[Self::Row; MOST_FREE]) -> Self::Row {
        Self::row(std::array::from_fn(|i| Self::best_lane(rows[i])))
    }
    /// The lanes that are as good as this or better.
    fn reaching(row: Self::Row, least: Self) -> u16;
    /// A row without the lanes of a set.
    fn rows_without(row: Self::Row, set: u32) -> Self::Row {
        let mut lanes = Self::lanes(row);
        bits(set).for_each(|v| lanes[v] = Self::NONE);
        Self::row(lanes)
    }
    /// Returns a row with this number in every lane.
    fn each(self) -> Self::Row {
        Self::row([self; MOST_FREE])
    }
}

/// A byte: the more, the worse.
#[derive(Clone, Copy, Debug)]
pub(super) struct Byte(u8);

impl Number for Byte {
    type Row = Bytes;
    const NONE: Self = Self(u8::MAX);
    const ZERO: Self = Self(0);
    const MOST: u32 = 254;
    #[inline]
    fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
    #[inline]
    fn ahead(self, other: Self) -> bool {
        self.0 < other.0
    }
    #[inline]
    fn of(units: u32) -> Self {
        Self(u8::try_from(units).unwrap_or(u8::MAX))
    }
    #[inline]
    fn units(self) -> Option<u32> {
        (self.0 < u8::MAX).then_some(u32::from(self.0))
    }
    #[inline]
    fn row(lanes: [Self; MOST_FREE]) -> Bytes {
        Bytes::new(lanes.map(|b| b.0))
    }
    #[inline]
    fn lanes(row: Bytes) -> [Self; MOST_FREE] {
        row.to_array().map(Self)
    }
    #[inline]
    fn lane(row: &Bytes, v: usize) -> Self {
        Self(row.as_array_ref()[v])
    }
    #[inline]
    fn rows_plus(a: Bytes, b: Bytes) -> Bytes {
        a.saturating_add(b)
    }
    #[inline]
    fn rows_minus(a: Bytes, b: Bytes) -> Bytes {
        a.saturating_sub(b)
    }
    #[inline]
    fn rows_most(a: Bytes, b: Bytes) -> Bytes {
        a.min(b)
    }
    #[inline]
    fn rows_least(a: Bytes, b: Bytes) -> Bytes {
        a.max(b)
    }
    #[inline]
    fn best_lane(row: Bytes) -> Self {
        Self(least(row))
    }
    #[inline]
    fn best_of_each(rows: &[Bytes; MOST_FREE]) -> Bytes {
        least_of_each(rows)
    }
    #[inline]
    fn reaching(row: Bytes, least: Self) -> u16 {
        at_most(row, least.0)
    }
    #[inline]
    fn rows_without(row: Bytes, set: u32) -> Bytes {
        row | lanes_of((set & 0xffff) as u16)
    }
    #[inline]
    fn each(self) -> Bytes {
        Bytes::splat(self.0)
    }
}

/// Wider numbers are negative, because processors have a maximum of signed words. `i32` is for nodes whose bandwidths have
/// no common unit.
macro_rules! wider {
    ($number:ty, $none:expr, $most:expr) => {
        impl Number for $number {
            type Row = [Self; MOST_FREE];
            const NONE: Self = $none;
            const ZERO: Self = 0;
            const MOST: u32 = $most;
            #[inline]
            fn plus(self, other: Self) -> Self {
                self.saturating_add(other)
            }
            #[inline]
            fn ahead(self, other: Self) -> bool {
                self > other
            }
            #[inline]
            fn of(units: u32) -> Self {
                Self::try_from(units).map_or(Self::NONE, |u| -u)
            }
            #[inline]
            fn units(self) -> Option<u32> {
                (self > Self::NONE).then_some(self.unsigned_abs().into())
            }
            #[inline]
            fn row(lanes: [Self; MOST_FREE]) -> Self::Row {
                lanes
            }
            #[inline]
            fn lanes(row: Self::Row) -> [Self; MOST_FREE] {
                row
            }
            #[inline]
            fn lane(row: &Self::Row, v: usize) -> Self {
                row[v]
            }
            #[inline]
            fn rows_plus(a: Self::Row, b: Self::Row) -> Self::Row {
                let mut out = a;
                out.iter_mut().zip(b).for_each(|(a, b)| *a = a.saturating_add(b));
                out
            }
            #[inline]
            fn rows_minus(a: Self::Row, b: Self::Row) -> Self::Row {
                let mut out = a;
                out.iter_mut().zip(b).for_each(|(a, b)| *a = a.saturating_sub(b));
                out
            }
            #[inline]
            fn rows_most(a: Self::Row, b: Self::Row) -> Self::Row {
                let mut out = a;
                out.iter_mut().zip(b).for_each(|(a, b)| *a = (*a).max(b));
                out
            }
            #[inline]
            fn rows_least(a: Self::Row, b: Self::Row) -> Self::Row {
                let mut out = a;
                out.iter_mut().zip(b).for_each(|(a, b)| *a = (*a).min(b));
                out
            }
            #[inline]
            fn best_lane(row: Self::Row) -> Self {
                row.into_iter().fold(Self::MIN, Self::max)
            }
            #[inline]
            fn reaching(row: Self::Row, least: Self) -> u16 {
                (0..MOST_FREE).fold(0, |set, i| set | u16::from(row[i] >= least) << i)
            }
        }
    };
}

wider!(i16, -16_384, 16_000);
wider!(i32, -(1 << 26), 1 << 25);

/// The best link and the unit of the differences to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    top_mb_s: u32,
    unit_mb_s: u32,
    /// Most units that one edge lacks.
    range: u32,
}

impl Scale {
    /// For links of these bandwidths, ascending.
    pub(super) fn new(levels: &[u32]) -> Self {
        let top_mb_s = levels.last().copied().unwrap_or(0);
        let unit_mb_s = levels.iter().fold(0, |unit, l| divisor(unit, top_mb_s - l)).max(1);
        let range = levels.first().map_or(0, |l| (top_mb_s - l) / unit_mb_s);
        Self { top_mb_s, unit_mb_s, range }
    }

    /// True if sums over so many edges fit.
    pub(super) fn fits<T: Number>(&self, edges: usize) -> bool {
        u32::try_from(edges).is_ok_and(|e| e.saturating_mul(self.range) <= T::MOST)
    }

    /// Returns the lack of an edge on this link.
    pub(super) fn lacks<T: Number>(&self, mb_s: u32) -> T {
        T::of((self.top_mb_s - mb_s) / self.unit_mb_s)
    }

    /// Returns the lack of a sum over so many edges.
    pub(super) fn lacking<T: Number>(&self, edges: usize, sum_mb_s: i64) -> Option<T> {
        let ideal = i64::from(self.top_mb_s) * i64::try_from(edges).ok()?;
        u32::try_from((ideal - sum_mb_s) / i64::from(self.unit_mb_s))
            .ok()
            .filter(|u| *u <= T::MOST)
            .map(T::of)
    }

    /// The sum over so many edges, MB/s; less than any sum if there is no match.
    pub(super) fn sum_mb_s<T: Number>(&self, edges: usize, lacks: T) -> i64 {
        let Some(units) = lacks.units() else { return i64::MIN / 2 };
        let ideal = i64::from(self.top_mb_s) * i64::try_from(edges).unwrap_or(0);
        ideal - i64::from(units) * i64::from(self.unit_mb_s)
    }
}

fn divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// Lack of each link: by vertex, and as rows.
pub(super) struct Weights<T: Number> {
    pub(super) of: Vec<[T; MOST_FREE]>,
    pub(super) rows: Vec<T::Row>,
}

impl<T: Number> Weights<T> {
    pub(super) fn new(of: Vec<[T; MOST_FREE]>) -> Self {
        let rows = of.iter().map(|lanes| T::row(*lanes)).collect();
        Self { of, rows }
    }
}

/// The best member of a set by a row.
pub(super) fn best_of<T: Number>(row: T::Row, mask: u32) -> Option<usize> {
    let lanes = T::lanes(row);
    bits(mask).reduce(|best, v| if lanes[v].ahead(lanes[best]) { v } else { best })
}
