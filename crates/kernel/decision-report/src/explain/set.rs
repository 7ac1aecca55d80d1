//! Sets of whole GPUs in words.

use crate::report::SetScore;
use topology::Selection;

/// Why this set was chosen, for a reader who sees the set: `ring at 52 GB/s (bottleneck), the best of 8 free GPUs (preserve)`.
pub(super) fn why(score: &SetScore, exact: bool) -> String {
    let SetScore { free, policy, preserved_bw, .. } = score;
    let best = if exact { "the" } else { "about the" };
    let left = || format!("leaves {} GB/s of links to other jobs, {best} most", number(*preserved_bw));
    let aim = match policy {
        _ if alike(score) => "as good as any".to_owned(),
        Selection::Baseline => "the lowest numbers".to_owned(),
        Selection::TopoAware => "on the fewest sockets".to_owned(),
        Selection::Greedy if has_edges(score) => format!("{best} most AggBW"),
        Selection::Preserve if score.sensitive && has_edges(score) => format!("{best} best"),
        Selection::Greedy | Selection::Preserve => left(),
    };
    let prefix = prediction(score).map_or_else(String::new, |p| format!("{p}, "));
    if score.gpus.len() == *free as usize {
        return format!("{prefix}the only free GPU{}", if *free == 1 { "" } else { "s" });
    }
    format!("{prefix}{aim} of {free} free GPUs ({})", policy.name())
}

/// Writes what is predicted for a set, `ring at 52 GB/s (bottleneck)`; `None` if nothing is.
#[must_use]
pub fn prediction(score: &SetScore) -> Option<String> {
    let eff_bw = score.scores.eff_bw.filter(|_| has_edges(score))?;
    Some(format!("{} at {} GB/s ({})", score.pattern, number(eff_bw), score.model.name()))
}

fn has_edges(score: &SetScore) -> bool {
    score.scores.bounds.is_some()
}

/// Tells whether every set is as good as this one, so that only its place among the GPUs decided.
fn alike(score: &SetScore) -> bool {
    if !has_edges(score) {
        return score.preserved_bw <= 0.0;
    }
    let (free, n) = (u64::from(score.free), score.gpus.len() as u64);
    let mut sets = 1_u64;
    for i in 0..n.min(free.saturating_sub(n)) {
        sets = sets.saturating_mul(free - i) / (i + 1);
    }
    score.tied_sets.is_some_and(|tied| tied >= sets)
}

/// Writes a number with one decimal, or none for a whole number.
#[must_use]
pub fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}
