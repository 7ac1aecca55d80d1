//! The best answer to a question of [`mapa`], proven.

use geometry::GpuIndex;
use mapa::Edge;
use topology::{GpuSet, Selection};

use crate::limits::{FEW_STEPS, MOST_FREE};
use crate::search::{Aim, Budget, Contest, KnownOrder, LinksTaken, PatternSearch, Space, Winner, search_for};
use crate::unanswered::Unanswered;
use mapa::{Match, NoMatch, Query, score};
use topology::BandwidthModel;

/// Chooses the best set by the policy, as [`mapa::choose`] does, and proves it.
///
/// Passes on what `mapa` answers for more than 16 free GPUs, whose links are all alike, and its sets under the two policies
/// that take a set without asking how good it is.
///
/// # Errors
///
/// [`Unanswered`], in words for the user.
pub fn choose(query: &Query<'_>) -> Result<Match, Unanswered> {
    let Query { graph, n, .. } = *query;
    let free: GpuSet = query.free.iter().filter(|g| usize::from(g.0) < graph.len()).collect();
    if n == 0 || free.len() < n || free.len() > MOST_FREE {
        return Ok(mapa::choose(query)?);
    }
    let edges = mapa::edges_of(query.pattern, n).map_err(NoMatch::from)?;
    let fixed = match query.policy {
        Selection::Baseline | Selection::TopoAware => Some(mapa::choose(query)?.gpus),
        Selection::Greedy | Selection::Preserve => None,
    };
    let pattern = search_for(query.pattern, &edges, n);
    let mut budget = Budget(pattern.steps(aim(query), query.free.len()));
    let fixed = if free.len() == n { Some(free) } else { fixed };
    let (set, tied, known) = match fixed {
        Some(set) => (set, Some(1), KnownOrder::default()),
        None => {
            let space = Space::new(graph, free).ok_or(NoMatch::TooMany(free.len()))?;
            let found = best_set(query, &*pattern, &space, &mut budget)?;
            (space.gpu_set(found.mask), found.tied, found.known)
        }
    };
    let is_best_set = budget.0 > 0;
    // The order of a set that is not proven is searched for all the same.
    budget.0 = budget.0.max(FEW_STEPS);
    let order = best_order(query, &*pattern, (set, known), &mut budget)?;
    Ok(finish(query, &edges, order, free, tied, is_best_set && budget.0 > 0))
}

fn finish(
    query: &Query<'_>,
    edges: &[Edge],
    order: Vec<GpuIndex>,
    free: GpuSet,
    tied_sets: Option<u64>,
    exact: bool,
) -> Match {
    let gpus: GpuSet = order.iter().copied().collect();
    let rest = GpuSet::from_bits(free.bits() & !gpus.bits());
    let scores = score(query.graph, edges, &order, query.model);
    Match { gpus, order, scores, preserved_bw: query.graph.preserved_bw(rest), tied_sets, exact }
}

/// Returns the goal by which orders of one set are judged. Equation 2 orders ranks only if Algorithm 1 asks for EffBW, as MAPA's
/// program does: elsewhere its order would be a slower one.
fn aim(query: &Query<'_>) -> Aim {
    let by_eff = query.policy == Selection::Preserve && query.sensitive;
    match (query.policy, query.model) {
        (Selection::Greedy, _) => Aim::Sum,
        (_, BandwidthModel::Bottleneck(_)) => Aim::Slowest,
        (_, BandwidthModel::Mapa2021) if by_eff => Aim::Equation2,
        (_, BandwidthModel::Mapa2021) => Aim::Sum,
    }
}

/// The order of ranks on a given set.
fn best_order(
    query: &Query<'_>,
    pattern: &dyn PatternSearch,
    (set, known): (GpuSet, KnownOrder),
    budget: &mut Budget,
) -> Result<Vec<GpuIndex>, Unanswered> {
    if let Some(order) = known.order {
        return Ok(order);
    }
    let space = Space::new(query.graph, set).ok_or(NoMatch::TooMany(set.len()))?;
    let order = match aim(query) {
        Aim::Equation2 => pattern.order_by_equation_2(&space, budget)?,
        Aim::Slowest => pattern.order_by_slowest(&space, known.slowest_mb_s, budget),
        Aim::Sum => pattern.order_by_sum(&space, known.sum_mb_s, budget),
    };
    Ok(order.into_iter().map(|v| space.gpus[v]).collect())
}

fn best_set(
    query: &Query<'_>,
    pattern: &dyn PatternSearch,
    space: &Space,
    budget: &mut Budget,
) -> Result<Winner, Unanswered> {
    let contest = Contest::new(space, query);
    if query.policy == Selection::Preserve && !query.sensitive {
        return Ok(leaving_most(&contest));
    }
    match aim(query) {
        Aim::Equation2 => pattern.set_by_equation_2(contest, budget),
        Aim::Slowest => pattern.set_by_slowest(contest, budget),
        Aim::Sum => pattern.set_by_sum(contest, budget),
    }
}

/// The set that takes least from others. Of several that take as little from everybody, the one with most bandwidth of
/// its own, then the lowest GPUs.
fn leaving_most(contest: &Contest<'_>) -> Winner {
    let mut best: Option<(LinksTaken, u32, u32)> = None;
    let mut tied = 0;
    for mask in contest.sets() {
        let taken = contest.taken(mask);
        let behind = best.is_some_and(|(t, ..)| taken[0] > t[0]);
        if behind {
            continue;
        }
        let ahead = best.is_none_or(|(t, ..)| taken[0] < t[0]);
        tied = if ahead { 1 } else { tied + 1 };
        let key = (taken, u32::MAX - contest.space.among(mask), u32::MAX - mask.reverse_bits());
        if best.is_none_or(|b| key < b) {
            best = Some(key);
        }
    }
    let mask = best.map_or(0, |(_, _, key)| (u32::MAX - key).reverse_bits());
    Winner { mask, tied: Some(tied), known: KnownOrder::default() }
}
