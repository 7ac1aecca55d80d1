//! Who is put together: one after the other, each the best.

/// Gathers partners for `seed`: again and again, of all `others`, the one with whom the weighted speedup is highest, as long
/// as that grows above `least`. Of equals the first is taken.
///
/// `weigh` gives a group's weighted speedup and how it would run; the group's seed comes first, then its partners in the
/// order taken. `None`: it may not run.
///
/// Returns the partners' places in `others` and how the group runs; `None` if nobody is taken.
pub(super) fn gather<T>(
    others: usize,
    least: f64,
    mut weigh: impl FnMut(&[usize]) -> Option<(f64, T)>,
) -> Option<(Vec<usize>, T)> {
    let mut taken: Vec<usize> = Vec::new();
    let mut known: Option<(f64, T)> = None;
    loop {
        let mut best: Option<(usize, f64, T)> = None;
        for other in (0..others).filter(|other| !taken.contains(other)) {
            let group: Vec<usize> = taken.iter().copied().chain([other]).collect();
            let Some((speedup, how)) = weigh(&group) else { continue };
            if best.as_ref().is_none_or(|(_, most, _)| speedup > *most) {
                best = Some((other, speedup, how));
            }
        }
        let enough = known.as_ref().map_or(least, |(speedup, _)| *speedup);
        match best.filter(|(_, speedup, _)| *speedup > enough) {
            Some((other, speedup, how)) => {
                taken.push(other);
                known = Some((speedup, how));
            }
            None => return known.map(|(_, how)| (taken, how)),
        }
    }
}
