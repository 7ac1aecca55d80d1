//! Which set a job gets, and in which order.

use super::form::Form;
use super::general::{Aim, Budget, FEW_STEPS, GraphPattern, MOST_STEPS, best, good_sum};
use super::model::{BandwidthModel, Bounds, Scores, score};
use super::ranking::{Found, Known, Lost, Ranking, least_missed};
use super::ranks::RANKS;
use super::slowest::{Slowest, by_slowest};
use super::space::{MOST_FREE, Space, subsets};
use super::tables::Tables;
use super::topo;
use super::wanted::{MOST_PLACED, MOST_PLACED_LISTED};
use geometry::GpuIndex;
use topology::{Edge, GpuSet, HardwareGraph, Pattern, PatternError, Selection};

/// What is to be chosen.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The node.
    pub graph: &'a HardwareGraph,
    /// GPUs to choose from.
    pub free: GpuSet,
    /// Of the others, those that are expected back first, where that is known: they break ties.
    pub next: GpuSet,
    /// How many.
    pub n: usize,
    /// How they talk.
    pub pattern: &'a Pattern,
    /// Whether bandwidth between them matters.
    pub sensitive: bool,
    /// How to select.
    pub policy: Selection,
    /// How EffBW is predicted.
    pub model: BandwidthModel,
}

/// A set of GPUs for a job, and what it scores.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The set.
    pub gpus: GpuSet,
    /// The GPU of each rank.
    pub order: Vec<GpuIndex>,
    /// Links, AggBW and EffBW.
    pub scores: Scores,
    /// Links that remain among the other free GPUs (Equation 3), GB/s.
    pub preserved_bw: f64,
    /// Sets that are as good by what the policy asks for, this one included. `None` where counting them takes longer
    /// than the decision: all but stars and cliques under `mapa2021`, edge lists with cycles, and where many sets may be
    /// as good.
    pub tied_sets: Option<u64>,
    /// Nothing is better. False where a search used up its steps: edge lists may; named patterns were not seen to.
    pub exact: bool,
}

/// Why no set was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoChoice {
    /// Nothing was asked for.
    #[error("0 GPUs asked for")]
    Nothing,
    /// Fewer free than asked for.
    #[error("{free} GPUs free, {n} asked for")]
    TooFew {
        /// Free.
        free: usize,
        /// Asked for.
        n: usize,
    },
    /// More free GPUs, with different links, than an exact search takes.
    #[error("{0} free GPUs with different links: the search takes {MOST_FREE}")]
    TooMany(usize),
    /// Equation 2 for an edge list whose best counts were not found in so many steps.
    #[error("no match found under mapa2021 in {MOST_PLACED_LISTED} steps: use the default model")]
    NotWithMapa2021,
    /// An edge list that does not fit.
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

/// Chooses a set of GPUs, the best by the policy. Of sets that tie, the one that leaves most links among the free GPUs;
/// then among those and the ones that come back next; then among all others of the node; then the lowest.
///
/// # Errors
///
/// [`NoChoice`], in words for the user.
pub fn choose(query: &Query<'_>) -> Result<Choice, NoChoice> {
    let Query { graph, n, .. } = *query;
    let free: GpuSet = query.free.iter().filter(|g| usize::from(g.0) < graph.len()).collect();
    if n == 0 {
        return Err(NoChoice::Nothing);
    }
    if free.len() < n {
        return Err(NoChoice::TooFew { free: free.len(), n });
    }
    let edges = query.pattern.edges(n)?;
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
        Selection::TopoAware => Some(topo::partition(graph.len(), graph.socket(), free, n)),
        Selection::Greedy | Selection::Preserve => None,
    };
    let form = Form::new(query.pattern, &edges, n);
    let fixed = if free.len() == n { Some(free) } else { fixed };
    let (set, tied, known, mut budget) = match fixed {
        Some(set) => (set, Some(1), Known::default(), budget(query, &form)),
        None => {
            let space = Space::new(graph, free).ok_or(NoChoice::TooMany(free.len()))?;
            let mut budget = budget(query, &form);
            let found = ranked(query, &form, &space, &mut budget)?;
            (space.gpu_set(found.mask), found.tied, found.known, budget)
        }
    };
    let is_best_set = budget.0 > 0;
    // The order of a set that is not proven is looked for no less.
    budget.0 = budget.0.max(FEW_STEPS);
    let order = arrange(query, &form, (set, known), &mut budget)?;
    Ok(finish(query, &edges, order, free, tied, is_best_set && budget.0 > 0))
}

/// For sums of edge lists over more GPUs nothing is proven with any number of steps that a controller has time for.
const MOST_PROVEN: usize = 8;

/// For patterns that have tables where steps do not tell.
const MOST_TABLED: u32 = 4 * MOST_STEPS;

fn budget(query: &Query<'_>, form: &Form) -> Budget {
    Budget(match (aim(query), form) {
        (Aim::Equation2, Form::Graph(_)) => MOST_PLACED_LISTED,
        (Aim::Equation2, _) => MOST_PLACED,
        (Aim::Sum, Form::Graph(_)) if query.free.len() > MOST_PROVEN => FEW_STEPS,
        (_, Form::Graph(_)) => MOST_STEPS,
        _ => MOST_TABLED,
    })
}

fn finish(
    query: &Query<'_>,
    edges: &[Edge],
    order: Vec<GpuIndex>,
    free: GpuSet,
    tied_sets: Option<u64>,
    exact: bool,
) -> Choice {
    let gpus: GpuSet = order.iter().copied().collect();
    let rest = GpuSet::from_bits(free.bits() & !gpus.bits());
    let scores = score(query.graph, edges, &order, query.model);
    Choice { gpus, order, scores, preserved_bw: query.graph.preserved_bw(rest), tied_sets, exact }
}

/// Whether every link among these GPUs is like every other, so that sets and orders do not differ.
fn alike(graph: &HardwareGraph, free: GpuSet) -> bool {
    let mut links = free.iter().flat_map(|a| free.iter().filter_map(move |b| graph.link(a, b)));
    let first = links.next();
    let mut sends = free.iter().map(|g| graph.sends_mbps(g));
    let send = sends.next();
    links.all(|l| Some(l) == first) && sends.all(|s| Some(s) == send)
}

fn combinations(m: usize, n: usize) -> u64 {
    let part = |c: u64, i: usize| c.saturating_mul((m - i) as u64) / (i as u64 + 1);
    (0..n.min(m - n)).fold(1, part)
}

/// What orders of one set are judged by. Equation 2 orders ranks only where Algorithm 1 asks for EffBW, as MAPA's
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
fn arrange(
    query: &Query<'_>,
    form: &Form,
    (set, known): (GpuSet, Known),
    budget: &mut Budget,
) -> Result<Vec<GpuIndex>, NoChoice> {
    if let Some(order) = known.order {
        return Ok(order);
    }
    let space = Space::new(query.graph, set).ok_or(NoChoice::TooMany(set.len()))?;
    let order = match aim(query) {
        Aim::Equation2 => form.order_by_equation_2(&space, budget)?,
        Aim::Slowest => form.order_by_slowest(&space, known.slowest_mbps, budget),
        Aim::Sum => form.order_by_sum(&space, known.sum_mbps, budget),
    };
    Ok(order.into_iter().map(|v| space.gpus[v]).collect())
}

fn ranked(query: &Query<'_>, form: &Form, space: &Space, budget: &mut Budget) -> Result<Found, NoChoice> {
    let mut ranking = Ranking::new(space, query);
    let sets = || subsets(space.len(), query.n);
    if query.policy == Selection::Preserve && !query.sensitive {
        return Ok(preserved(query, space, &ranking));
    }
    if matches!(form, Form::Empty) {
        sets().for_each(|mask| ranking.offer(0.0, mask));
        return ranking.winner();
    }
    match (aim(query), form) {
        (Aim::Equation2, _) => {
            let Some(worth) = form.equation_2(space, query.n) else {
                let found = form.wanted(space, query.n, &ranking.ordered(query.n), budget)?;
                let order = found.order.iter().map(|v| space.gpus[*v]).collect();
                let known = Known { order: Some(order), ..Known::default() };
                return Ok(Found { mask: found.mask, tied: None, known });
            };
            sets().zip(worth).for_each(|(mask, worth)| ranking.offer(worth, mask));
        }
        (Aim::Sum, Form::Graph(pattern)) => {
            lazily_by_sum(query, pattern, space, &mut ranking, budget);
            return Ok(Found { tied: None, ..ranking.winner()? });
        }
        (Aim::Slowest, _) => {
            if let Some(pattern) = form.graph(query.n) {
                let has_tables = !matches!(form, Form::Graph(_));
                let tables = has_tables.then(|| Tables::new(form, space, query.n));
                let found = by_slowest(query, &pattern, (space, &ranking), tables, budget);
                return found.map(|found| set_of(&found, space)).ok_or(NoChoice::Nothing);
            }
            let levels = form.slowest(space, query.n);
            let mbps = |level: u8| space.levels[usize::from(level)];
            for (mask, level) in sets().zip(&levels) {
                ranking.offer(predict(query, space, f64::from(mbps(*level)), mask), mask);
            }
            let found = ranking.winner()?;
            let level = levels.get(RANKS.of(found.mask)).copied();
            return Ok(Found { known: Known { slowest_mbps: level.map(mbps), ..Known::default() }, ..found });
        }
        (Aim::Sum, _) => {
            let sums = form.sums(space, query.n);
            sets().zip(&sums).for_each(|(mask, sum)| ranking.offer(whole(*sum), mask));
            let found = ranking.winner()?;
            let sum_mbps = sums.get(RANKS.of(found.mask)).copied();
            return Ok(Found { known: Known { sum_mbps, ..Known::default() }, ..found });
        }
    }
    ranking.winner()
}

fn set_of(found: &Slowest, space: &Space) -> Found {
    let level = found.mbps.and_then(|mbps| space.levels.iter().find(|level| f64::from(**level) >= mbps));
    let known = Known { slowest_mbps: level.copied(), ..Known::default() };
    Found { mask: found.mask, tied: found.tied, known }
}

/// Sums are far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "sums of 120 links of 10^6")]
fn whole(mbps: i64) -> f64 {
    mbps as f64
}

/// The bandwidth of a set whose match has so fast a slowest edge.
pub(super) fn predict(query: &Query<'_>, space: &Space, slowest_mbps: f64, mask: u32) -> f64 {
    match query.model {
        BandwidthModel::Bottleneck(c) => c.predict(Bounds { slowest_mbps, sends_mbps: space.sends(mask) }),
        BandwidthModel::Mapa2021 => slowest_mbps,
    }
}

/// The set that leaves most; of several that leave as much to all others, too, the one with most links of its own, then
/// the lowest GPUs.
fn preserved(query: &Query<'_>, space: &Space, ranking: &Ranking<'_>) -> Found {
    let mut best: Option<(Lost, u32, u32)> = None;
    let mut tied = 0;
    for mask in subsets(space.len(), query.n) {
        let lost = ranking.lost(mask);
        let behind = best.is_some_and(|(l, ..)| lost[0] > l[0]);
        if behind {
            continue;
        }
        let ahead = best.is_none_or(|(l, ..)| lost[0] < l[0]);
        tied = if ahead { 1 } else { tied + 1 };
        let key = (lost, u32::MAX - space.among(mask), u32::MAX - mask.reverse_bits());
        if best.is_none_or(|b| key < b) {
            best = Some(key);
        }
    }
    let mask = best.map_or(0, |(_, _, key)| (u32::MAX - key).reverse_bits());
    Found { mask, tied: Some(tied), known: Known::default() }
}

fn lazily_by_sum(
    query: &Query<'_>,
    pattern: &GraphPattern,
    space: &Space,
    ranking: &mut Ranking<'_>,
    budget: &mut Budget,
) {
    let mut sets: Vec<(u32, Lost, u32)> =
        subsets(space.len(), query.n).map(|mask| (space.among(mask), ranking.lost(mask), mask)).collect();
    sets.sort_unstable_by(|a, b| {
        b.0.cmp(&a.0).then(a.1.cmp(&b.1)).then(b.2.reverse_bits().cmp(&a.2.reverse_bits()))
    });
    if let Some((sum, order)) = good_sum(pattern, space, 0) {
        ranking.offer(sum, order.into_iter().fold(0, |mask, v| mask | 1 << v));
    }
    for (_, _, mask) in sets {
        if budget.0 == 0 && ranking.best.is_some() {
            break;
        }
        let floor = (ranking.best.map_or(f64::NEG_INFINITY, |(worth, ..)| worth - 0.5), 0.0);
        let found = best(pattern, &space.part(mask), Aim::Sum, floor, budget);
        if let Some(found) = found {
            ranking.offer(found.key.0, mask);
        }
    }
}
