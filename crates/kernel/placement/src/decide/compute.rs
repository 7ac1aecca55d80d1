//! A compute instance: a part of a GPU instance's SMs beside other jobs of the same GPU instance.
//!
//! # Rules
//! A request names the size and the GPU instance's profile: `4c.7g.40gb`. All compute instances of a GPU instance share its
//! memory, and nothing limits a job's part of it. So each job states what it needs, the sum must fit, and the jobs are of one
//! user unless the site says otherwise. A GPU instance that one job has to itself, or that is shared through MPS, takes none,
//! nor do the site's own instances.
//!
//! # Approach
//! A GPU instance that has compute instances of others comes before a new one, which costs what it costs as a job's own
//! ([`decision_report::cost`]). Within it, the start that leaves most compute instances possible: `3c` goes to slice 4 of a `7g`, so
//! that a `4c` still fits. Ties go to the lowest GPU, GPU instance and start. If a plan names a place, the GPU instance there
//! comes first.

use super::starts::{bit, cost_of, free_starts};
use super::view::{View, first_job};
use decision_report::Cost;
use decision_report::report::{Candidate, ComputeScore, Constraint, Fate, Report, Starts, Takes};
use geometry::{ComputeProfile, Profile, Slice};
use node_state::{Ask, ComputeHold, Holder, Kind, Policy, Purpose, SharedMemory};
use protocol::{ComputeSpec, MigSpec};

/// The best compute instance for a request.
pub(super) struct BestCompute {
    pub(super) within: MigSpec,
    pub(super) takes: Takes,
    pub(super) score: ComputeScore,
}

impl BestCompute {
    /// Less is better.
    fn rank(&self) -> (bool, Cost, u32, u16, u8, u8) {
        let ComputeScore { part, joins, lost, cost } = self.score;
        (!joins, cost, lost, self.within.gpu.0, self.within.start.0, part.start.0)
    }
}

/// The profiles that the request names, on one GPU's model.
type Named = (&'static Profile, &'static ComputeProfile);

/// Finds the best place for a compute instance called `name`, whose job needs `mem_mib`.
pub(super) fn search(
    views: &[View<'_>],
    ask: &Ask,
    policy: &Policy,
    (name, mem_mib): (&str, u64),
    report: &mut Report,
) -> Option<BestCompute> {
    let (mut best, mut planned): (Option<BestCompute>, Option<BestCompute>) = (None, None);
    for view in views {
        let named = match named(view, ask, policy, name, mem_mib) {
            Ok(named) => named,
            Err(why) => {
                report.push(candidate(view, None, Fate::Ruled(why)));
                continue;
            }
        };
        for start in named.0.starts.iter().copied() {
            let found = at(view, ask, policy, (named, start), mem_mib);
            let fate = found.as_ref().map_or_else(|why| Fate::Ruled(*why), |b| Fate::Compute(b.score));
            report.push(candidate(view, Some((named.0, Starts(bit(start)))), fate));
            let Ok(found) = found else { continue };
            let is_planned = ask.request.place.is_some_and(|p| (p.gpu, p.start) == (view.gpu, start));
            let slot = if is_planned { &mut planned } else { &mut best };
            if slot.as_ref().is_none_or(|known| found.rank() < known.rank()) {
                *slot = Some(found);
            }
        }
    }
    report.planned = ask.request.place.map(|place| (place, planned.is_some()));
    planned.or(best)
}

fn candidate(view: &View<'_>, instances: Option<(&'static Profile, Starts)>, fate: Fate) -> Candidate {
    Candidate { kind: Kind::Mig, gpu: view.gpu, instances, fate }
}

/// Finds the profiles of the name on this GPU, or why the job can have no such thing there, whatever is free.
fn named(view: &View<'_>, ask: &Ask, policy: &Policy, name: &str, mem_mib: u64) -> Result<Named, Constraint> {
    if let Some(why) = view.withheld(ask) {
        return Err(why);
    }
    if let Err(never @ (Constraint::MigOff | Constraint::NoMig)) = view.mig {
        return Err(never);
    }
    let (profile, size) = view.model.compute_profile(name).ok_or(Constraint::NoSuchProfile(view.model))?;
    let sm_need = view.model.least_sm(ask.request.threads.unwrap_or(0));
    if policy.shared_memory == SharedMemory::Never {
        Err(Constraint::NoSharedMemory)
    } else if profile.memory_mib < mem_mib {
        Err(Constraint::TooLittleMemory { need: mem_mib, has: profile.memory_mib })
    } else if size.sm < sm_need {
        Err(Constraint::TooFewSms { need: sm_need, has: size.sm })
    } else if view.purpose == Purpose::Static {
        Err(Constraint::NoStaticInstance)
    } else {
        view.mig.map(|()| (profile, size))
    }
}

/// The best compute instance in the GPU instance that is, or could be, at `start`.
fn at(
    view: &View<'_>,
    ask: &Ask,
    policy: &Policy,
    (named, start): (Named, Slice),
    mem_mib: u64,
) -> Result<BestCompute, Constraint> {
    let (profile, size) = named;
    let within = MigSpec { gpu: view.gpu, profile: profile.id, start };
    let here = view.instances().iter().find(|i| i.profile == profile.id && i.start == start);
    if let Some(Holder::Compute(holds)) = here.map(|i| &i.holder) {
        may_join(ask, policy, holds, profile, mem_mib)?;
        let (start, lost) = best_start(profile, size, holds)?;
        let part = ComputeSpec { slices: size.slices, start };
        let score = ComputeScore { part, joins: true, lost, cost: Cost::default() };
        let takes = Takes::of_units(0, view.units());
        return Ok(BestCompute { within, takes, score });
    }
    if view.room_for(profile) == 0 || free_starts(view, profile) & bit(start) == 0 {
        let whole = here.and_then(|i| first_job(&i.holder)).map(Constraint::IsolatedFor);
        let taken = view.holder_of(profile.at(start)).map_or(Constraint::ProfileLimit, Constraint::Taken);
        return Err(whole.unwrap_or(taken));
    }
    let (first, lost) = best_start(profile, size, &[])?;
    let part = ComputeSpec { slices: size.slices, start: first };
    let cost = cost_of(view, profile, bit(start), profile.at(start).mask());
    let takes = Takes::of_units(profile.size.into(), view.units());
    Ok(BestCompute { within, takes, score: ComputeScore { part, joins: false, lost, cost } })
}

/// Tells whether the job may be in one GPU instance with these jobs.
fn may_join(
    ask: &Ask,
    policy: &Policy,
    holds: &[ComputeHold],
    profile: &Profile,
    mem_mib: u64,
) -> Result<(), Constraint> {
    let stranger = holds.iter().find(|h| h.uid != ask.uid);
    if let Some(other) = stranger.filter(|_| policy.shared_memory != SharedMemory::Any) {
        return Err(Constraint::OtherUser(other.uid));
    }
    let left = profile.memory_mib.saturating_sub(holds.iter().map(|h| h.mem_mib).sum());
    if mem_mib > left { Err(Constraint::MemoryPromised { need: mem_mib, left }) } else { Ok(()) }
}

/// The free start that leaves most compute instances of all sizes possible, and how many it rules out.
fn best_start(
    profile: &Profile,
    size: &ComputeProfile,
    holds: &[ComputeHold],
) -> Result<(Slice, u32), Constraint> {
    let taken = holds.iter().fold(0, |mask, h| mask | h.part.mask());
    let same = holds.iter().filter(|h| h.part.slices == size.slices).count();
    let possible = |taken: u16| -> usize {
        let free = |c: &ComputeProfile| c.starts.iter().filter(|s| c.mask_at(**s) & taken == 0).count();
        profile.compute.iter().map(free).sum()
    };
    let lost = |start: Slice| {
        u32::try_from(possible(taken) - possible(taken | size.mask_at(start))).unwrap_or(u32::MAX)
    };
    let free = size.starts.iter().copied().filter(|s| size.mask_at(*s) & taken == 0);
    let free = free.filter(|_| same < size.max_instances as usize);
    free.map(|s| (s, lost(s)))
        .min_by_key(|(start, lost)| (*lost, *start))
        .ok_or(Constraint::NoComputeSlices(size.slices))
}
