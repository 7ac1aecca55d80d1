//! The choice of a set for a job, and of its order.

use crate::edges::{Edge, edges_of};
use geometry::GpuIndex;
use topology::{GpuSet, HardwareGraph, Selection};

use crate::bipartition;
use crate::limits::{FEW_STEPS, MOST_FREE, MOST_STEPS};
use crate::model;
use crate::query::{Match, NoMatch, Query};
use crate::search::{
    Budget, Contest, KnownOrder, LinksTaken, Ranks, Score, SlowestSearch, Space, Tally, TallySearch, Winner,
    least_missed,
};
use topology::BandwidthModel;

/// Chooses the best set by the policy.
///
/// Of sets that tie, the one wins that leaves most bandwidth among the free GPUs; then among those and the ones that come
/// back next; then among all other GPUs; then the one with the lowest GPUs.
///
/// # Errors
///
/// [`NoMatch`], in words for the user.
pub fn choose(query: &Query<'_>) -> Result<Match, NoMatch> {
    let Query { graph, n, .. } = *query;
    let free: GpuSet = query.free.iter().filter(|g| usize::from(g.0) < graph.len()).collect();
    if n == 0 {
        return Err(NoMatch::Nothing);
    }
    if free.len() < n {
        return Err(NoMatch::TooFew { free: free.len(), n });
    }
    let edges = edges_of(query.pattern, n)?;
    let lowest: Vec<GpuIndex> = free.iter().take(n).collect();
    if alike(graph, free) {
        let order = match query.policy {
            Selection::Baseline | Selection::TopoAware => lowest,
            Selection::Greedy | Selection::Preserve => least_missed(query, free),
        };
        return Ok(finish(query, &edges, order, free, Some(combinations(free.len(), n)), true));
    }
    let fixed = match query.policy {
        Selection::Baseline => Some(lowest.iter().copied().collect()),
        Selection::TopoAware => Some(bipartition::lowest(graph.len(), graph.socket(), free, n)),
        Selection::Greedy | Selection::Preserve => None,
    };
    if n > MOST_FREE {
        return Err(NoMatch::TooMany(n));
    }
    let ranks = Ranks::new(&edges, n);
    let fixed = if free.len() == n { Some(free) } else { fixed };
    // Few orders end the search by themselves.
    let mut budget = Budget(if ranks.is_few(free.len()) { u32::MAX } else { MOST_STEPS });
    let (set, tied, known, is_best_set) = match fixed {
        Some(set) => (set, Some(1), KnownOrder::default(), true),
        None => {
            let space = Space::new(graph, free).ok_or(NoMatch::TooMany(free.len()))?;
            let found = best_set(query, &ranks, &space, &mut budget);
            (space.gpu_set(found.mask), found.tied, found.known, found.is_proven)
        }
    };
    let (order, is_best_order) = best_order(query, &ranks, (set, known), &mut budget)?;
    Ok(finish(query, &edges, order, free, tied, is_best_set && is_best_order))
}

/// Tells whether every order of the query's ranks on a given set is tried. If not, a set takes some milliseconds.
#[must_use]
pub fn has_few_orders(query: &Query<'_>) -> bool {
    edges_of(query.pattern, query.n).is_ok_and(|edges| Ranks::new(&edges, query.n).is_few(query.n))
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
    let scores = model::score(query.graph, edges, &order, query.model);
    Match { gpus, order, scores, preserved_bw: query.graph.preserved_bw(rest), tied_sets, exact }
}

/// Tells whether every link among these GPUs is like every other, so that sets and orders do not differ.
fn alike(graph: &HardwareGraph, free: GpuSet) -> bool {
    let mut links = free.iter().flat_map(|a| free.iter().filter_map(move |b| graph.link(a, b)));
    let first = links.next();
    let mut sends = free.iter().map(|g| graph.sends_mb_s(g));
    let send = sends.next();
    links.all(|l| Some(l) == first) && sends.all(|s| Some(s) == send)
}

fn combinations(m: usize, n: usize) -> u64 {
    let part = |c: u64, i: usize| c.saturating_mul((m - i) as u64) / (i as u64 + 1);
    (0..n.min(m - n)).fold(1, part)
}

/// By what a policy rates the match of one set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    /// The rate of the slowest edge, then the sum.
    Slowest,
    /// The sum over all edges (AggBW).
    Sum,
    /// EffBW by Equation 2.
    Equation2,
}

/// Chooses the measure by which orders of one set are compared. Equation 2 orders ranks only where Algorithm 1 asks for
/// EffBW, as MAPA's program does: elsewhere its order would be a slower one.
fn aim(query: &Query<'_>) -> Aim {
    let by_eff = query.policy == Selection::Preserve && query.sensitive;
    match (query.policy, query.model) {
        (Selection::Greedy, _) => Aim::Sum,
        (_, BandwidthModel::Bottleneck(_)) => Aim::Slowest,
        (_, BandwidthModel::Mapa2021) if by_eff => Aim::Equation2,
        (_, BandwidthModel::Mapa2021) => Aim::Sum,
    }
}

/// Gives the score of matches, if they are not compared by their slowest edge. Without edges all matches are alike.
fn score(query: &Query<'_>, ranks: &Ranks) -> Option<Score> {
    match aim(query) {
        Aim::Slowest if ranks.edges() > 0 => None,
        Aim::Equation2 => Some(Score::Equation2(ranks.edges())),
        Aim::Slowest | Aim::Sum => Some(Score::Sum),
    }
}

/// The order of ranks on a given set. The flag: it is proven.
fn best_order(
    query: &Query<'_>,
    ranks: &Ranks,
    (set, known): (GpuSet, KnownOrder),
    budget: &mut Budget,
) -> Result<(Vec<GpuIndex>, bool), NoMatch> {
    if let Some(order) = known.order {
        return Ok((order, true));
    }
    // The order of a set that is not proven is searched for all the same.
    budget.0 = budget.0.max(FEW_STEPS);
    let space = Space::new(query.graph, set).ok_or(NoMatch::TooMany(set.len()))?;
    let (order, is_proven) = match score(query, ranks) {
        None => SlowestSearch { ranks }.order(&space, known.slowest, budget),
        Some(score) => {
            let tally = Tally::new(&space, score).with_bounds();
            TallySearch { ranks, tally: &tally }.order(&space, budget)
        }
    };
    Ok((order.into_iter().map(|v| space.gpus[v]).collect(), is_proven))
}

fn best_set(query: &Query<'_>, ranks: &Ranks, space: &Space, budget: &mut Budget) -> Winner {
    let contest = Contest::new(space, query);
    if query.policy == Selection::Preserve && !query.sensitive {
        return leaving_most(&contest);
    }
    if ranks.edges() == 0 {
        return contest.any();
    }
    match score(query, ranks) {
        None => SlowestSearch { ranks }.set(&contest, budget),
        Some(score) => {
            let tally = Tally::new(space, score).with_bounds();
            TallySearch { ranks, tally: &tally }.set(&contest, budget)
        }
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
    Winner { mask, tied: Some(tied), known: KnownOrder::default(), is_proven: true }
}
