//! Whole GPUs: the set that MAPA's policies choose, and the GPU of each rank.
//!
//! # Problem
//! Choose `n` of the free GPUs as the policy in force asks, in the order in which the job's ranks should use them. A GPU
//! on which a job has an instance or share is not free.
//!
//! # Approach
//! [`mapa`] answers, from memory if the same was asked before about the same free GPUs of the same hardware graph.
//! It has no answer for more than 16 free GPUs with different links, or for an edge list that does not fit the number
//! of GPUs; [`super::link_sum`] chooses then, lowest GPU first. Patterns that `mapa2021` cannot rank use the default
//! model; the report names the model.
//!
//! # Quotas
//! A job that asks per socket, or for several types of GPU, gets a number of each group: see [`super::quotas`].

use super::link_sum;
use super::quotas::remembered;
use super::tasks::beside_context;
use super::view::{View, blocker};
use decision_report::report::{Candidate, Constraint, Fate, GPU_PARTS, Report, SetScore, Takes};
use geometry::GpuIndex;
use mapa::{Match, Memo, Query};
use node_state::{Ask, Kind, MigPolicy, Policy, PoolPolicy, Purpose};
use protocol::Bandwidth;
use topology::{GpuSet, HardwareGraph, Quota};

/// The set that the policy in force asks for.
pub(super) struct BestSet {
    /// The GPU of each rank.
    pub(super) gpus: Vec<GpuIndex>,
    pub(super) takes: Takes,
    pub(super) fate: Fate,
}

/// Place and purpose of the search.
pub(super) struct Place<'a> {
    pub(super) views: &'a [View<'a>],
    pub(super) links: &'a HardwareGraph,
    pub(super) ask: &'a Ask,
    pub(super) policy: &'a Policy,
    /// Memory that each GPU must have, MiB.
    pub(super) mem_mib: u64,
    /// For GPU tasks: seats that each GPU must have.
    pub(super) seats: Option<(PoolPolicy, u32)>,
}

impl Place<'_> {
    /// The GPUs to choose from. `out` is called with each other GPU and the reason.
    fn free(&self, mut out: impl FnMut(GpuIndex, Constraint)) -> GpuSet {
        let mut free = GpuSet::EMPTY;
        for view in self.views {
            match ruled_out(view, self.ask, self.mem_mib).or_else(|| self.too_few_seats(view)) {
                None => free.insert(view.gpu),
                Some(constraint) => {
                    out(view.gpu, self.seats.map_or(constraint, |(pool, _)| beside_context(constraint, pool)))
                }
            }
        }
        free
    }

    fn too_few_seats(&self, view: &View<'_>) -> Option<Constraint> {
        let (pool, need) = self.seats?;
        let has = pool.seats(view.model, None);
        (has < need).then_some(Constraint::TooFewSeats { need, has })
    }

    fn kind(&self) -> Kind {
        if self.seats.is_some() { Kind::Tasks } else { Kind::Whole }
    }

    fn wanted(&self) -> usize {
        usize::try_from(self.ask.request.gpus.unwrap_or(1)).unwrap_or(usize::MAX)
    }

    /// Tells whether these GPUs contain a set of the size asked for that satisfies the quotas.
    fn enough(&self, free: GpuSet) -> bool {
        let (n, quotas) = (self.wanted(), &self.ask.quotas);
        let each = || quotas.iter().all(|q| free.and(q.of).len() >= q.n);
        let sum: usize = quotas.iter().map(|q| q.n).sum();
        n > 0 && free.len() >= n && (quotas.is_empty() || (sum == n && each()))
    }

    /// Tells whether [`search`] would find a set.
    pub(super) fn fits(&self) -> bool {
        self.enough(self.free(|_, _| ()))
    }
}

/// Finds whole GPUs for a job.
pub(super) fn search(place: &Place<'_>, memo: &mut Memo, report: &mut Report) -> Option<BestSet> {
    let ruled = |gpu, constraint| Candidate {
        kind: place.kind(),
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
    report.push(Candidate { kind: place.kind(), gpu: lowest, instances: None, fate });
    let units = gpus.iter().filter_map(|g| place.views.get(usize::from(g.0)));
    let units = units.map(|v| u32::from(v.model.placement_units)).sum();
    let parts = u32::try_from(gpus.len()).unwrap_or(u32::MAX).saturating_mul(GPU_PARTS);
    Some(BestSet { gpus, takes: Takes { oversubscribed: false, parts, units, of_units: units }, fate })
}

/// MAPA's choice; `None` if its search has no answer.
fn by_policy(place: &Place<'_>, free: GpuSet, memo: &mut Memo) -> Option<(Match, SetScore)> {
    let (request, sets) = (&place.ask.request, &place.policy.sets);
    let pattern = request.pattern.as_ref().unwrap_or(&sets.pattern);
    let asked = Query {
        graph: place.links,
        free,
        next: place.ask.next,
        n: place.wanted(),
        pattern,
        sensitive: request.bandwidth.unwrap_or(sets.bandwidth) == Bandwidth::Sensitive,
        policy: request.policy.unwrap_or(sets.selection),
        model: sets.model,
    };
    let choice = remembered(&asked, &place.ask.quotas, memo).ok()?;
    let score = SetScore {
        gpus: choice.gpus,
        free: u32::try_from(free.len()).unwrap_or(u32::MAX),
        pattern: pattern.name(),
        sensitive: asked.sensitive,
        policy: asked.policy,
        model: asked.model,
        scores: choice.scores,
        preserved_bw: choice.preserved_bw,
        tied_sets: choice.tied_sets,
    };
    Some((choice, score))
}

/// The set with the largest sum of links, for when MAPA has no answer. The flag: proven to be the largest.
fn by_sum(place: &Place<'_>, free: GpuSet) -> Option<(Vec<GpuIndex>, Fate, bool)> {
    let all = [Quota { of: free, n: place.wanted() }];
    let quotas = if place.ask.quotas.is_empty() { &all[..] } else { &place.ask.quotas };
    let (mut set, mut exact) = (GpuSet::EMPTY, quotas.len() == 1);
    for quota in quotas {
        let question = link_sum::Question { free: free.and(quota.of), n: quota.n, links: place.links };
        let best = link_sum::best_set(&question)?;
        best.gpus.iter().for_each(|g| set.insert(g));
        exact &= best.exact;
    }
    let free = u32::try_from(free.len()).unwrap_or(u32::MAX);
    let mb_s = link_sum::links_mb_s(set, place.links);
    Some((set.iter().collect(), Fate::Links { mb_s, set: set.bits(), free }, exact))
}

fn ruled_out(view: &View<'_>, ask: &Ask, mem_mib: u64) -> Option<Constraint> {
    if let Some(why) = view.withheld(ask) {
        return Some(why);
    }
    match view.purpose {
        Purpose::Slurm if ask.plain => {}
        Purpose::Static | Purpose::Shares | Purpose::Slurm => return Some(Constraint::KeptFor(view.purpose)),
        Purpose::Any | Purpose::Whole => {}
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
