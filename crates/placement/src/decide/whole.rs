//! Whole GPUs: the set that MAPA's policies choose, and the GPU of each rank.
//!
//! # Problem
//! Of the free GPUs, the `n` that the policy in force asks for, in the order in which the job's ranks should use them.
//! GPUs with instances or shares of a job are not free.
//!
//! # Approach
//! [`mapa`] answers, from memory where the same free GPUs of the same hardware graph were asked about before.
//! It has no answer for more than 16 free GPUs with different links and for an edge list that does not fit the number
//! of GPUs: then [`super::sum`] chooses, lowest GPU first. Where `mapa2021` cannot rank a pattern, the default model
//! does; the report says which model it was.
//!
//! # Quotas
//! A job that asks per socket, or for several types of GPU, must get so many of each group. Every such set is tried,
//! up to [`MOST_SETS`]; of more, each group's own best is taken, which the report calls not proven. Answers are
//! remembered with their quotas.

use super::mps::blocker;
use super::sum;
use super::view::View;
use geometry::GpuIndex;
use mapa::{BandwidthModel, Match, Memo, NoMatch, Query, choose};
use node_state::report::{Candidate, Constraint, Fate, GPU_PARTS, Report, SetScore, Takes};
use node_state::{Ask, Kind, MigPolicy, Policy};
use protocol::Bandwidth;
use topology::{GpuSet, LinkMatrix, Pattern, Quota, Selection};

/// Most sets that are tried one by one where there are quotas: each costs some microseconds.
pub(super) const MOST_SETS: usize = 128;

/// What the search found.
pub(super) struct Found {
    /// In the order of ranks.
    pub(super) gpus: Vec<GpuIndex>,
    pub(super) takes: Takes,
    pub(super) fate: Fate,
}

/// Where to search and what for.
pub(super) struct Place<'a> {
    pub(super) views: &'a [View<'a>],
    pub(super) links: &'a LinkMatrix,
    pub(super) ask: &'a Ask,
    pub(super) policy: &'a Policy,
    /// Least memory of each GPU, MiB.
    pub(super) mem_mib: u64,
}

impl Place<'_> {
    /// The GPUs to choose from; `out` is told why others are none.
    fn free(&self, mut out: impl FnMut(GpuIndex, Constraint)) -> GpuSet {
        let mut free = GpuSet::EMPTY;
        for view in self.views {
            match ruled_out(view, self.ask, self.mem_mib) {
                None => free.insert(view.gpu),
                Some(constraint) => out(view.gpu, constraint),
            }
        }
        free
    }

    fn wanted(&self) -> usize {
        usize::try_from(self.ask.request.gpus.unwrap_or(1)).unwrap_or(usize::MAX)
    }

    /// Whether so many can be had of these.
    fn enough(&self, free: GpuSet) -> bool {
        let (n, quotas) = (self.wanted(), &self.ask.quotas);
        let each = || quotas.iter().all(|q| free.and(q.of).len() >= q.n);
        let sum: usize = quotas.iter().map(|q| q.n).sum();
        n > 0 && free.len() >= n && (quotas.is_empty() || (sum == n && each()))
    }

    /// Whether [`search`] would find a set.
    pub(super) fn fits(&self) -> bool {
        self.enough(self.free(|_, _| ()))
    }
}

/// Finds whole GPUs for a job.
pub(super) fn search(place: &Place<'_>, memo: &mut Memo, report: &mut Report) -> Option<Found> {
    let ruled = |gpu, constraint| Candidate {
        kind: Kind::Whole,
        gpu,
        instances: None,
        fate: Fate::Ruled(constraint),
    };
    let free = place.free(|gpu, constraint| report.push(ruled(gpu, constraint)));
    if !place.enough(free) {
        let fits = u32::try_from(free.len()).unwrap_or(u32::MAX);
        free.iter().for_each(|gpu| report.push(ruled(gpu, Constraint::FitsOnly(fits))));
        return None;
    }
    let (gpus, fate, exact) = match by_policy(place, free, memo) {
        Some((choice, score)) => (choice.order, Fate::Set(score), choice.exact),
        None => by_sum(place, free)?,
    };
    report.inexact |= !exact;
    let lowest = *gpus.iter().min()?;
    report.push(Candidate { kind: Kind::Whole, gpu: lowest, instances: None, fate });
    let units = gpus.iter().filter_map(|g| place.views.get(usize::from(g.0)));
    let units = units.map(|v| u32::from(v.model.placement_units)).sum();
    let parts = u32::try_from(gpus.len()).unwrap_or(u32::MAX).saturating_mul(GPU_PARTS);
    Some(Found { gpus, takes: Takes { oversubscribed: false, parts, units, of_units: units }, fate })
}

/// MAPA's choice; `None` where its search has no answer.
fn by_policy(place: &Place<'_>, free: GpuSet, memo: &mut Memo) -> Option<(Match, SetScore)> {
    let (request, sets) = (&place.ask.request, &place.policy.sets);
    let pattern = request.pattern.as_ref().unwrap_or(&sets.pattern);
    let asked = Query {
        graph: place.links.graph(),
        free,
        next: place.ask.next,
        n: place.wanted(),
        pattern,
        sensitive: request.bandwidth.unwrap_or(sets.bandwidth) == Bandwidth::Sensitive,
        policy: request.policy.unwrap_or(sets.selection),
        model: sets.model,
    };
    let mut answer = |query: &Query<'_>| remembered(query, &place.ask.quotas, memo);
    let (query, choice) = match answer(&asked) {
        Err(NoMatch::NotWithMapa2021) => {
            let query = Query { model: BandwidthModel::default(), ..asked };
            (query, answer(&query).ok()?)
        }
        other => (asked, other.ok()?),
    };
    let score = SetScore {
        gpus: choice.gpus,
        free: u32::try_from(free.len()).unwrap_or(u32::MAX),
        pattern: pattern.name(),
        sensitive: query.sensitive,
        policy: query.policy,
        model: query.model,
        scores: choice.scores,
        preserved_bw: choice.preserved_bw,
        tied_sets: choice.tied_sets,
    };
    Some((choice, score))
}

/// The answer, from memory where it was asked for before.
fn remembered(query: &Query<'_>, quotas: &[Quota], memo: &mut Memo) -> Result<Match, NoMatch> {
    match quotas {
        [] => memo.choose(query),
        quotas => memo.recall(query, quotas, || with_quotas(query, quotas)),
    }
}

/// The best of the sets with so many GPUs of each group.
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
            // A pattern of the whole job means nothing for a part of it.
            let part = Query { free: of, n: quota.n, pattern: &Pattern::All, ..*query };
            choose(&part)?.gpus.iter().for_each(|g| union.insert(g));
        }
        return Ok(Match { exact: false, ..fixed(union)? });
    };
    let mut best: Option<Match> = None;
    for set in sets {
        let new = fixed(set)?;
        best = Some(match best {
            None => new,
            Some(old) => match compare(query, &new, &old) {
                std::cmp::Ordering::Greater => new,
                std::cmp::Ordering::Less => old,
                std::cmp::Ordering::Equal => Match { tied_sets: old.tied_sets.map(|t| t + 1), ..old },
            },
        });
    }
    best.ok_or(NoMatch::Nothing)
}

/// By what the policy asks for, then by the links left to others: those that are free, those and the ones that come
/// back next, all. Sets come in the order of their lowest GPUs.
fn compare(query: &Query<'_>, a: &Match, b: &Match) -> std::cmp::Ordering {
    let eff = |c: &Match| c.scores.eff_bw.unwrap_or(0.0);
    let (free, next, all) = (query.free.bits(), query.next.bits(), query.graph.all().bits());
    let among = |others: u64, c: &Match| query.graph.preserved_bw(GpuSet::from_bits(others & !c.gpus.bits()));
    let later = |others| among(others, a).total_cmp(&among(others, b));
    let left = a.preserved_bw.total_cmp(&b.preserved_bw).then_with(|| later(free | next).then(later(all)));
    match query.policy {
        Selection::Baseline | Selection::TopoAware => std::cmp::Ordering::Equal,
        Selection::Greedy => a.scores.agg_bw.total_cmp(&b.scores.agg_bw).then(left),
        Selection::Preserve if query.sensitive => eff(a).total_cmp(&eff(b)).then(left),
        Selection::Preserve => left.then(eff(a).total_cmp(&eff(b))),
    }
}

/// Every set with so many of each group, those with the lowest GPUs first; `None` where they are too many.
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
    sets.sort_unstable_by_key(|set| std::cmp::Reverse(set.bits().reverse_bits()));
    Some(sets)
}

/// Adds `n` of these GPUs to a set in every way; `None` at more than [`MOST_SETS`] sets.
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

/// The largest sums of links, where MAPA has no answer.
fn by_sum(place: &Place<'_>, free: GpuSet) -> Option<(Vec<GpuIndex>, Fate, bool)> {
    let all = [Quota { of: free, n: place.wanted() }];
    let quotas = if place.ask.quotas.is_empty() { &all[..] } else { &place.ask.quotas };
    let (mut set, mut exact) = (GpuSet::EMPTY, quotas.len() == 1);
    for quota in quotas {
        let question = sum::Question { free: free.and(quota.of), n: quota.n, links: place.links };
        let best = sum::best_set(&question)?;
        best.gpus.iter().for_each(|g| set.insert(g));
        exact &= best.exact;
    }
    let free = u32::try_from(free.len()).unwrap_or(u32::MAX);
    let mb_s = sum::links_mb_s(set, place.links);
    Some((set.iter().collect(), Fate::Links { mb_s, set: set.bits(), free }, exact))
}

fn ruled_out(view: &View<'_>, ask: &Ask, mem_mib: u64) -> Option<Constraint> {
    if !ask.permits(view.gpu) {
        return Some(Constraint::NotOffered);
    }
    if let Some(taken) = blocker(view) {
        return Some(taken);
    }
    if view.policy == MigPolicy::On {
        return Some(Constraint::MigAlways);
    }
    let has = view.model.usable_mib();
    (has < mem_mib).then_some(Constraint::TooLittleMemory { need: mem_mib, has })
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::{HardwareGraph, System};

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
        // What was asked for first must not be mixed up with what comes later, without quotas neither.
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
