//! Sets of whole GPUs with a number of each group: for a job that asks per socket, or for several types of GPU.
//!
//! Every such set is tried, up to [`MOST_SETS`]. When there are more, each group's own best is taken, which the report
//! calls not proven. Of sets of more than eight GPUs whose orders cannot all be tried, only the [`SLOW_SETS`] with the most bandwidth are.

use geometry::GpuIndex;
use mapa::{Match, Memo, NoMatch, Query, choose, has_few_orders};
use std::cmp::Ordering;
use topology::{GpuSet, Pattern, Quota, Selection};

/// Most sets that are tried one by one: each costs some microseconds.
const MOST_SETS: usize = 128;
/// Most sets that are tried one by one if each has too many orders to try them all: each costs up to 10 ms.
const SLOW_SETS: usize = 8;

/// The best set with these quotas (any set without), from `memo` if the same was asked before.
///
/// # Errors
///
/// As [`choose`].
pub(super) fn remembered(query: &Query<'_>, quotas: &[Quota], memo: &mut Memo) -> Result<Match, NoMatch> {
    match quotas {
        [] => memo.choose(query),
        quotas => memo.recall(query, quotas, || with_quotas(query, quotas)),
    }
}

/// The best of the sets that satisfy the quotas.
fn with_quotas(query: &Query<'_>, quotas: &[Quota]) -> Result<Match, NoMatch> {
    let fixed = |set: GpuSet| {
        let choice = choose(&Query { free: set, n: set.len(), ..*query });
        let rest = GpuSet::from_bits(query.free.bits() & !set.bits());
        choice.map(|c| Match { preserved_bw: query.graph.preserved_bw(rest), tied_sets: Some(1), ..c })
    };
    let Some(sets) = every_set(query.free, quotas) else {
        let mut union = GpuSet::EMPTY;
        for quota in quotas {
            let of = query.free.and(quota.of);
            // The pattern is that of the whole set; a part of the set has none.
            let part = Query { free: of, n: quota.n, pattern: &Pattern::All, ..*query };
            choose(&part)?.gpus.iter().for_each(|g| union.insert(g));
        }
        return Ok(Match { exact: false, ..fixed(union)? });
    };
    let mut best: Option<Match> = None;
    let all = sets.len();
    let sets = if all > SLOW_SETS && !has_few_orders(query) { most_promising(query, sets) } else { sets };
    let left_out = sets.len() < all;
    for set in sets {
        let new = fixed(set)?;
        best = Some(match best {
            None => new,
            Some(old) => match compare(query, &new, &old) {
                Ordering::Greater => new,
                Ordering::Less => old,
                Ordering::Equal => Match { tied_sets: old.tied_sets.map(|t| t + 1), ..old },
            },
        });
    }
    let best = best.ok_or(NoMatch::Nothing)?;
    if left_out { Ok(Match { exact: false, tied_sets: None, ..best }) } else { Ok(best) }
}

/// The sets with the most bandwidth of what the policy asks for: inside, or among the other free GPUs. Keeps their order.
fn most_promising(query: &Query<'_>, mut sets: Vec<GpuSet>) -> Vec<GpuSet> {
    let among = |set: &GpuSet| match query.policy {
        Selection::Baseline | Selection::TopoAware => 0.0,
        Selection::Preserve if !query.sensitive => {
            query.graph.preserved_bw(GpuSet::from_bits(query.free.bits() & !set.bits()))
        }
        Selection::Greedy | Selection::Preserve => query.graph.preserved_bw(*set),
    };
    sets.sort_by(|a, b| among(b).total_cmp(&among(a)));
    sets.truncate(SLOW_SETS);
    in_order(&mut sets);
    sets
}

/// Puts those with the lowest GPUs first.
fn in_order(sets: &mut [GpuSet]) {
    sets.sort_unstable_by_key(|set| std::cmp::Reverse(set.bits().reverse_bits()));
}

/// `Greater` if `a` is better. Compares by what the policy asks for, then by the bandwidth left among other GPUs: first
/// the free ones, then also those expected back next, then all. On ties the caller keeps the set that came first.
fn compare(query: &Query<'_>, a: &Match, b: &Match) -> Ordering {
    let eff = |c: &Match| c.scores.eff_bw.unwrap_or(0.0);
    let (free, next, all) = (query.free.bits(), query.next.bits(), query.graph.all().bits());
    let among = |others: u64, c: &Match| query.graph.preserved_bw(GpuSet::from_bits(others & !c.gpus.bits()));
    let later = |others| among(others, a).total_cmp(&among(others, b));
    let left = a.preserved_bw.total_cmp(&b.preserved_bw).then_with(|| later(free | next).then(later(all)));
    match query.policy {
        Selection::Baseline | Selection::TopoAware => Ordering::Equal,
        Selection::Greedy => a.scores.agg_bw.total_cmp(&b.scores.agg_bw).then(left),
        Selection::Preserve if query.sensitive => eff(a).total_cmp(&eff(b)).then(left),
        Selection::Preserve => left.then(eff(a).total_cmp(&eff(b))),
    }
}

/// Every set that satisfies the quotas, those with the lowest GPUs first; `None` if there are more than [`MOST_SETS`].
fn every_set(free: GpuSet, quotas: &[Quota]) -> Option<Vec<GpuSet>> {
    let mut sets = vec![GpuSet::EMPTY];
    for quota in quotas {
        let of: Vec<GpuIndex> = free.and(quota.of).iter().collect();
        let mut next = Vec::new();
        for set in &sets {
            extend(&of, quota.n, *set, &mut next)?;
        }
        sets = next;
    }
    in_order(&mut sets);
    Some(sets)
}

/// Appends to `out` the set with `n` of these GPUs added, in every way; `None` beyond [`MOST_SETS`] sets.
fn extend(of: &[GpuIndex], n: usize, set: GpuSet, out: &mut Vec<GpuSet>) -> Option<()> {
    if n == 0 {
        out.push(set);
        return (out.len() <= MOST_SETS).then_some(());
    }
    for (i, gpu) in of.iter().enumerate().take((of.len() + 1).saturating_sub(n)) {
        let mut with = set;
        with.insert(*gpu);
        extend(&of[i + 1..], n - 1, with, out)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::{BandwidthModel, HardwareGraph, System};

    fn query<'a>(graph: &'a HardwareGraph, pattern: &'a Pattern, busy: u64, policy: Selection) -> Query<'a> {
        let free = GpuSet::from_bits(graph.all().bits() & !busy);
        Query {
            graph,
            free,
            next: GpuSet::EMPTY,
            n: 4,
            pattern,
            sensitive: true,
            policy,
            model: BandwidthModel::default(),
        }
    }

    #[test]
    fn remembered_quotas_are_those_asked_for() {
        let graph = System::find("dgx-v").and_then(|s| s.graph(8)).unwrap();
        let half = |of: u64, n| Quota { of: GpuSet::from_bits(of), n };
        let quotas =
            [[half(0x0f, 2), half(0xf0, 2)], [half(0x0f, 1), half(0xf0, 3)], [half(0x33, 2), half(0xcc, 2)]];
        let mut memo = Memo::default();
        // Answers must not be mixed up: not between quotas, and not with queries that have none.
        for _ in 0..2 {
            for policy in Selection::ALL {
                for (busy, quotas) in
                    [0, 0x02, 0x81].into_iter().flat_map(|b| quotas.iter().map(move |q| (b, q)))
                {
                    let query = query(&graph, &Pattern::Ring, busy, policy);
                    let found = remembered(&query, quotas, &mut memo);
                    assert_eq!(found, with_quotas(&query, quotas), "{policy:?} {busy} {quotas:?}");
                    let gpus = found.unwrap().gpus;
                    assert!(quotas.iter().all(|q| gpus.and(q.of).len() == q.n), "{gpus} {quotas:?}");
                    assert_eq!(remembered(&query, &[], &mut memo), choose(&query));
                }
            }
        }
    }

    /// slurmctld holds its locks meanwhile: 64 sets of 14 GPUs with a weighted edge list took 0.6 s.
    #[test]
    fn of_sets_with_many_orders_few_are_tried() {
        let graph = System::find("cubemesh-16").and_then(|s| s.graph(16)).unwrap();
        let quotas = [0xff, 0xff00].map(|of| Quota { of: GpuSet::from_bits(of), n: 7 });
        for (pattern, few) in [(Pattern::Ring, false), (Pattern::All, true)] {
            for policy in Selection::ALL {
                let query = Query { n: 14, ..query(&graph, &pattern, 0, policy) };
                assert_eq!(has_few_orders(&query), few);
                let all = every_set(query.free, &quotas).unwrap();
                assert_eq!((all.len(), most_promising(&query, all.clone()).len()), (64, SLOW_SETS));
                let found = with_quotas(&query, &quotas).unwrap();
                assert!(quotas.iter().all(|q| found.gpus.and(q.of).len() == q.n));
                assert!(few || !found.exact, "{policy:?}");
            }
        }
    }

    #[test]
    fn quotas_are_searched_for_once() {
        let graph = System::find("dgx-v").and_then(|s| s.graph(8)).unwrap();
        let query = query(&graph, &Pattern::Ring, 0, Selection::Preserve);
        let quotas =
            [Quota { of: GpuSet::from_bits(0x0f), n: 2 }, Quota { of: GpuSet::from_bits(0xf0), n: 2 }];
        let mut memo = Memo::default();
        let first = remembered(&query, &quotas, &mut memo);
        let again = memo.recall(&query, &quotas, || Err(NoMatch::Nothing));
        assert!(first.is_ok() && first == again);
    }
}
