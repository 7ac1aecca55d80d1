//! Sets of up to 16 vertices as bit masks: bit `v` stands for vertex `v`.

/// The members of a set, ascending.
#[inline]
pub(crate) fn bits(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let low = (mask != 0).then(|| mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        low
    })
}

/// Every set of `k` of `m` vertices (16 at most), in ascending order of their numbers.
#[inline]
pub(crate) fn subsets(m: usize, k: usize) -> impl Iterator<Item = u32> {
    let first = if k <= m { Some((1_u32 << k) - 1) } else { None };
    std::iter::successors(first, move |set| {
        if *set == 0 {
            return None;
        }
        let low = set & set.wrapping_neg();
        let up = set + low;
        let next = up | (((set ^ up) >> 2) / low);
        (next < 1 << m).then_some(next)
    })
}
