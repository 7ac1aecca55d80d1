//! MIG instances for one job: the smallest profile that satisfies, placed where most is left.
//!
//! # Problem
//! `n` instances of the smallest satisfying profile, on any GPUs or all on one, such that their summed
//! [`Cost`] is least. The profile depends on the GPU's model; on one GPU all instances are of one profile.
//!
//! # Approach
//! Wherever a larger satisfying profile fits, the smallest one fits as well and costs less (a test checks it for
//! every model and every partition), so each GPU has one profile to consider. Per GPU every set of at most `n` free
//! starts is weighed: at most 2^7 on the models known, never more than 2^16. Cost is a sum over GPUs, so the best
//! set per GPU and count, combined by dynamic programming over GPUs, is the exact optimum:
//! O(GPUs x n x starts) steps.
//!
//! # Plans
//! One instance that a plan wants at a certain place gets that place if it can be there, whatever it costs.
//!
//! # Ties
//! The list of (GPU, start), ascending, that comes first in lexicographic order.

use super::joint::{Choice, Table, better};
use super::view::View;
use geometry::{Profile, Slice};
use node_state::report::{Candidate, Constraint, Fate, GPU_PARTS, Report, Starts, Takes};
use node_state::{Ask, Cost, Holder, Kind, MigPolicy};
use protocol::moldable::PlannedStart;
use protocol::{MigSpec, Request};

/// What is looked for on each GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want<'a> {
    /// This profile and no other.
    pub(super) profile: Option<&'a str>,
    /// At least this much memory, MiB.
    pub(super) mem_mib: u64,
    /// At least this share of the SMs that MIG can give, percent.
    pub(super) sm_percent: u32,
    /// The size with the least work for this request, see [`Request::least_work`], rather than the smallest.
    pub(super) least_work: Option<&'a Request>,
}

/// What the search found.
pub(super) struct Found {
    pub(super) specs: Vec<MigSpec>,
    pub(super) takes: Takes,
    pub(super) cost: Cost,
}

/// Finds the best `n` instances, or `None` where they do not all fit. `n` is at least 1.
pub(super) fn search(views: &[View<'_>], ask: &Ask, want: Want<'_>, report: &mut Report) -> Option<Found> {
    let n = usize::try_from(ask.request.instances.max(1)).unwrap_or(usize::MAX);
    let mut table = Table::new(views.len(), n)?;
    let mut profiles = Profiles::new(want);
    for (i, view) in views.iter().enumerate() {
        match profile_here(view, ask, &mut profiles) {
            Ok(profile) => {
                // Several instances make many sets, and most GPUs of a node look the same: weigh each look once.
                let seen = views[..i].iter().filter(|_| n > 1);
                let twin = seen.rev().find(|v| ask.permits(v.gpu) && v.looks_like(view, profile));
                if let Some(twin) = twin {
                    table.copy_row(twin, view);
                }
                let row = table.row(view);
                weigh_gpu(view, profile, row, twin.is_some(), (n, ask.same_gpu_only), report);
            }
            Err(constraint) => report.push(Candidate {
                kind: Kind::Mig,
                gpu: view.gpu,
                instances: None,
                fate: Fate::Ruled(constraint),
            }),
        }
    }
    if let Some(place) = ask.request.place.filter(|_| n == 1) {
        let found = planned(views, ask, &mut profiles, place);
        report.planned = Some((place, found.is_some()));
        if found.is_some() {
            return found;
        }
    }
    let counts = if ask.same_gpu_only { table.best_single(n) } else { table.best_joint(n) }?;
    let mut specs = Vec::with_capacity(n);
    let mut cost = Cost::default();
    let mut takes = Takes { oversubscribed: false, parts: 0, units: 0, of_units: 0 };
    for (view, count) in views.iter().zip(counts) {
        let (Some(choice), Some(Ok(profile))) = (table.row(view)[count], profiles.known(view)) else {
            continue;
        };
        if count == 0 {
            continue;
        }
        cost = cost + choice.cost;
        let units = u32::from(profile.size) * u32::try_from(count).unwrap_or(0);
        takes.parts += units * GPU_PARTS / u32::from(view.model.placement_units.max(1));
        takes.units += units;
        takes.of_units += u32::from(view.model.placement_units);
        let start = (0..16).filter(|s| choice.starts >> s & 1 == 1).map(Slice);
        specs.extend(start.map(|start| MigSpec { gpu: view.gpu, profile: profile.id, start }));
    }
    Some(Found { specs, takes, cost })
}

/// The instance where a plan wants it, if it can be there.
fn planned(views: &[View<'_>], ask: &Ask, profiles: &mut Profiles<'_>, place: PlannedStart) -> Option<Found> {
    let view = views.get(usize::from(place.gpu.0))?;
    let profile = profile_here(view, ask, profiles).ok()?;
    let bit = 1_u16.checked_shl(u32::from(place.start.0))?;
    if view.room_for(profile) == 0 || free_starts(view, profile) & bit == 0 {
        return None;
    }
    let of_units = u32::from(view.model.placement_units);
    let units = u32::from(profile.size);
    let parts = units * GPU_PARTS / of_units.max(1);
    Some(Found {
        specs: vec![MigSpec { gpu: view.gpu, profile: profile.id, start: place.start }],
        takes: Takes { oversubscribed: false, parts, units, of_units },
        cost: cost_of(view, profile, bit, profile.at(place.start).mask()),
    })
}

fn profile_here(
    view: &View<'_>,
    ask: &Ask,
    profiles: &mut Profiles<'_>,
) -> Result<&'static Profile, Constraint> {
    if !ask.permits(view.gpu) {
        return Err(Constraint::NotOffered);
    }
    if view.mig == Err(Constraint::MigOff) {
        return Err(Constraint::MigOff);
    }
    let profile = profiles.of(view)?;
    view.mig.map(|()| profile)
}

/// The profile per model: nodes have few models, so the last one asked is nearly always the next one.
pub(super) struct Profiles<'a> {
    want: Want<'a>,
    known: Vec<(&'static str, Result<&'static Profile, Constraint>)>,
}

impl<'a> Profiles<'a> {
    pub(super) fn new(want: Want<'a>) -> Self {
        Self { want, known: Vec::new() }
    }

    fn known(&self, view: &View<'_>) -> Option<Result<&'static Profile, Constraint>> {
        let same = |key: &str| std::ptr::eq(key, view.model.key.as_str());
        self.known.iter().find(|(key, _)| same(key)).map(|(_, found)| *found)
    }

    pub(super) fn of(&mut self, view: &View<'_>) -> Result<&'static Profile, Constraint> {
        if let Some(found) = self.known(view) {
            return found;
        }
        let found = smallest(view, self.want);
        self.known.push((view.model.key.as_str(), found));
        found
    }
}

/// The smallest base profile that satisfies, or the one named if it does; for a moldable job the one with least work.
fn smallest(view: &View<'_>, want: Want<'_>) -> Result<&'static Profile, Constraint> {
    let model = view.model;
    let sm_need = (want.sm_percent * model.mig_sm()).div_ceil(100);
    let enough = |p: &Profile| {
        if p.memory_mib < want.mem_mib {
            Err(Constraint::TooLittleMemory { need: want.mem_mib, has: p.memory_mib })
        } else if p.sm < sm_need {
            Err(Constraint::TooFewSms { need: sm_need, has: p.sm })
        } else {
            Ok(())
        }
    };
    if let Some(name) = want.profile {
        let profile = model.profile(name).ok_or(Constraint::NoSuchProfile(model))?;
        return enough(profile).map(|()| profile);
    }
    let mut base = model.profiles.iter().filter(|p| !p.is_variant());
    if let Some(request) = want.least_work {
        let listed = |p: &&Profile| request.times.iter().any(|t| t.slices == p.compute_slices);
        let largest = base.rfind(listed).ok_or(Constraint::NoSuchProfile(model))?;
        let none = || enough(largest).err().unwrap_or(Constraint::NoSuchProfile(model));
        return request.least_work(model).ok_or_else(none);
    }
    let Some(found) = base.clone().find(|p| enough(p).is_ok()) else {
        let none = Constraint::TooLittleMemory { need: want.mem_mib, has: 0 };
        return Err(base.next_back().map_or(none, |largest| enough(largest).err().unwrap_or(none)));
    };
    Ok(found)
}

/// Weighs every set of at most `n` free starts on one GPU, keeps the best per count in `row`, and reports: each
/// start when one instance is asked for, the best set per count otherwise. With `known`, `row` is right already.
fn weigh_gpu(
    view: &View<'_>,
    profile: &'static Profile,
    row: &mut [Option<Choice>],
    known: bool,
    (n, all_here): (usize, bool),
    report: &mut Report,
) {
    let candidate = |starts: u16, fate| Candidate {
        kind: Kind::Mig,
        gpu: view.gpu,
        instances: Some((profile, Starts(starts))),
        fate,
    };
    let room = view.room_for(profile);
    let free = if room == 0 { 0 } else { free_starts(view, profile) };
    if n == 1 || free == 0 {
        for start in profile.starts.iter().filter(|s| free >> s.0 & 1 == 0) {
            let why = view.holder_of(profile.at(*start)).map_or(Constraint::ProfileLimit, Constraint::Taken);
            report.push(candidate(1 << start.0, Fate::Ruled(why)));
        }
    }
    let most = if known { 0 } else { n.min(row.len() - 1).min(room as usize) };
    for_each_set(profile, free, most, &mut |starts, union, count| {
        let choice = Choice { starts, cost: cost_of(view, profile, starts, union) };
        if n == 1 {
            report.push(candidate(starts, Fate::Costs(choice.cost)));
        }
        if row[count].is_none_or(|best| better(choice, best)) {
            row[count] = Some(choice);
        }
    });
    if n > 1 && free != 0 {
        report_counts(row, n, all_here, report, candidate);
    }
}

fn report_counts(
    row: &[Option<Choice>],
    n: usize,
    all_here: bool,
    report: &mut Report,
    candidate: impl Fn(u16, Fate) -> Candidate,
) {
    let fits = row.iter().rposition(Option::is_some).unwrap_or(0);
    for choice in row.iter().skip(1).flatten() {
        let short = all_here && (choice.starts.count_ones() as usize) < n;
        if !short {
            report.push(candidate(choice.starts, Fate::Costs(choice.cost)));
        } else if choice.starts.count_ones() as usize == fits {
            let fits = Constraint::FitsOnly(choice.starts.count_ones());
            report.push(candidate(choice.starts, Fate::Ruled(fits)));
        }
    }
}

/// Bit mask of the starts of `profile` whose units nobody holds.
pub(super) fn free_starts(view: &View<'_>, profile: &Profile) -> u16 {
    let free = profile.starts.iter().filter(|s| profile.at(**s).mask() & view.held == 0);
    free.fold(0, |mask, s| mask | 1_u16.checked_shl(u32::from(s.0)).unwrap_or(0))
}

/// Calls `f(starts, units, count)` for every set of 1 to `most` starts in `free` that do not overlap.
fn for_each_set(profile: &Profile, free: u16, most: usize, f: &mut impl FnMut(u16, u16, usize)) {
    fn extend(
        profile: &Profile,
        free: u16,
        most: usize,
        chosen: (u16, u16, usize),
        f: &mut impl FnMut(u16, u16, usize),
    ) {
        let (starts, union, count) = chosen;
        if count >= most {
            return;
        }
        let mut rest = free;
        while rest != 0 {
            let start = rest & rest.wrapping_neg();
            rest &= rest - 1;
            let place = profile.at(Slice(u8::try_from(start.trailing_zeros()).unwrap_or(u8::MAX))).mask();
            if place & union == 0 {
                let next = (starts | start, union | place, count + 1);
                f(next.0, next.1, next.2);
                extend(profile, rest, most, next, f);
            }
        }
    }
    extend(profile, free, most, (0, 0, 0), f);
}

/// What instances of `profile` at `starts`, together the units `union`, cost on this GPU.
pub(super) fn cost_of(view: &View<'_>, profile: &Profile, starts: u16, union: u16) -> Cost {
    let mut reused = 0_u16;
    let mut destroyed = 0;
    for idle in view.instances().iter().filter(|i| i.holder == Holder::Idle) {
        let bit = 1_u16.checked_shl(u32::from(idle.start.0)).unwrap_or(0);
        if idle.profile == profile.id && starts & bit != 0 {
            reused |= bit;
        } else if view.model.profile_by_id(idle.profile).is_none_or(|p| p.at(idle.start).mask() & union != 0)
        {
            destroyed += 1;
        }
    }
    let n = starts.count_ones();
    let switch = view.policy == MigPolicy::Dynamic && view.instances().is_empty();
    let switch = switch && matches!(view.state, node_state::GpuState::Free);
    Cost {
        memory_mib: view.model.span_mib(profile) * u64::from(n),
        sm: profile.sm * n,
        opened: u32::from(view.untouched),
        lost: view.left(0, None) - view.left(union, Some(profile)),
        switched: u32::from(switch),
        created: (starts & !reused).count_ones(),
        destroyed,
    }
}
