//! Rows of sixteen bytes, one per vertex, in one register.
//!
//! Written out because the searches spend most of their time here, and the compiler vectorises only some of them.

use wide::u8x16;

/// A row of bytes.
pub(super) type Bytes = u8x16;

/// The lesser of each two lanes that are eight apart: those of `a` in even lanes, those of `b` in odd ones.
#[inline]
fn halves(a: Bytes, b: Bytes) -> Bytes {
    u8x16::unpack_low(a, b).min(u8x16::unpack_high(a, b))
}

/// The least byte.
#[inline]
pub(super) fn least(row: Bytes) -> u8 {
    let mut all = row;
    for _ in 0..4 {
        all = halves(all, all);
    }
    all.as_array_ref()[0]
}

/// The least byte of each row.
#[inline]
pub(super) fn least_of_each(rows: &[Bytes; 16]) -> Bytes {
    let eight: [Bytes; 8] = std::array::from_fn(|i| halves(rows[i], rows[i + 8]));
    let four: [Bytes; 4] = std::array::from_fn(|i| halves(eight[i], eight[i + 4]));
    halves(halves(four[0], four[2]), halves(four[1], four[3]))
}

/// 255 in the lanes of a set, 0 in the others.
#[inline]
pub(super) fn lanes_of(set: u16) -> Bytes {
    let [low, high] = set.to_le_bytes();
    let sets = u8x16::new(std::array::from_fn(|i| if i < 8 { low } else { high }));
    let each = u8x16::new(std::array::from_fn(|i| 1 << (i % 8)));
    (sets & each).cmp_eq(each)
}

/// The lanes that are at most this, as a set.
#[inline]
pub(super) fn at_most(row: Bytes, limit: u8) -> u16 {
    let lanes = row.saturating_sub(u8x16::splat(limit)).cmp_eq(u8x16::splat(0)).move_mask();
    (lanes & 0xffff) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_byte_of_each_row_is_found() {
        let byte = |i: usize| u8::try_from(i % 251).unwrap();
        let rows: [Bytes; 16] =
            std::array::from_fn(|r| u8x16::new(std::array::from_fn(|i| byte(i * 37 + r * 29 + 3))));
        let expect = rows.map(|r| r.to_array().into_iter().min().unwrap());
        assert_eq!(least_of_each(&rows).to_array(), expect);
        assert_eq!(rows.map(least), expect);
        let few = u8x16::new(std::array::from_fn(|i| byte(200 + i)));
        assert_eq!(at_most(few, 202), 0b111);
        let lanes = std::array::from_fn(|i| if [0, 7, 8, 14].contains(&i) { 255 } else { 0 });
        assert_eq!(lanes_of(0x4181).to_array(), lanes);
    }
}
