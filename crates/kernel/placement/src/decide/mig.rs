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
//! O(GPUs x n x starts) steps. Where each GPU must carry the same number, the cheapest GPUs are the optimum.
//!
//! A GPU that the site has cut itself is another matter: see [`super::statics`].
//!
//! Where the site keeps some GPUs uncut, the dynamic programming counts the GPUs that get their first instance.
//!
//! # Plans
//! If a plan names a place for the job's one instance and the instance can be there, it goes there at any cost.
//!
//! # Ties
//! The list of (GPU, start), ascending, that comes first in lexicographic order.

use super::profile_choice::{Profiles, Want, profile_here};
use super::spread::{StartSet, Table, better};
use super::starts::{bit, cost_of, for_each_set, free_starts};
use super::statics;
use super::view::View;
use decision_report::Cost;
use decision_report::report::{Candidate, Constraint, Fate, GPU_PARTS, Report, Starts, Takes};
use geometry::{Profile, Slice};
use node_state::{Ask, Kind, Purpose, Spread};
use protocol::MigSpec;
use protocol::moldable::PlannedStart;
/// The instances with the least summed cost.
pub(super) struct BestInstances {
    /// Ascending by GPU and start.
    pub(super) specs: Vec<MigSpec>,
    pub(super) takes: Takes,
    /// Summed over the instances.
    pub(super) cost: Cost,
}

/// Finds the best instances, as many as `ask` requests; `None` if they do not all fit. Of the GPUs that are uncut now, at
/// most `may_be_cut` get some.
pub(super) fn search(
    views: &[View<'_>],
    may_be_cut: usize,
    ask: &Ask,
    want: Want<'_>,
    report: &mut Report,
) -> Option<BestInstances> {
    let n = usize::try_from(ask.request.instances.max(1)).unwrap_or(usize::MAX);
    let mut table = Table::new(views.len(), n)?;
    let mut profiles = Profiles::new(want);
    for (i, view) in views.iter().enumerate() {
        if view.purpose == Purpose::Static {
            statics::weigh(view, ask, &mut profiles, table.row(view), n, report);
            continue;
        }
        match profile_here(view, ask, &mut profiles) {
            Ok(profile) => {
                // Several instances make many sets, and most GPUs of a node look the same: weigh each look once.
                let seen = views[..i].iter().filter(|_| n > 1);
                let twin = seen.rev().find(|v| v.withheld(ask).is_none() && v.looks_like(view, profile));
                if let Some(twin) = twin {
                    table.copy_row(twin, view);
                }
                let row = table.row(view);
                weigh_gpu(view, profile, row, twin.is_some(), (n, ask.spread == Spread::OneGpu), report);
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
    let uncut = || -> Vec<bool> { views.iter().map(|v| v.uncut).collect() };
    let counts = match ask.spread {
        Spread::OneGpu => table.best_single(n),
        Spread::Alike { most } => table.best_alike(n, most, &uncut(), may_be_cut),
        Spread::Any => table.best_joint(n, &uncut(), may_be_cut),
    }?;
    Some(chosen(views, &mut table, &counts, &profiles))
}

/// The instances that the table has for these counts on the GPUs, and what they take.
fn chosen(views: &[View<'_>], table: &mut Table, counts: &[usize], profiles: &Profiles<'_>) -> BestInstances {
    let mut specs = Vec::new();
    let mut cost = Cost::default();
    let mut takes = Takes { oversubscribed: false, parts: 0, units: 0, of_units: 0 };
    for (view, count) in views.iter().zip(counts.iter().copied()) {
        let Some(choice) = table.row(view)[count].filter(|_| count > 0) else { continue };
        cost = cost + choice.cost;
        let here = instances_at(view, choice.starts, profiles);
        let units = here.iter().map(|(p, _)| u32::from(p.size)).sum::<u32>();
        takes.parts += units * GPU_PARTS / u32::from(view.model.placement_units.max(1));
        takes.units += units;
        takes.of_units += u32::from(view.model.placement_units);
        specs.extend(here.into_iter().map(|(p, start)| MigSpec { gpu: view.gpu, profile: p.id, start }));
    }
    BestInstances { specs, takes, cost }
}

/// The instances of a chosen set of starts.
fn instances_at(view: &View<'_>, starts: u16, profiles: &Profiles<'_>) -> Vec<(&'static Profile, Slice)> {
    if view.purpose == Purpose::Static {
        return view.static_idle().filter(|(_, start)| starts & bit(*start) != 0).collect();
    }
    let Some(Ok(profile)) = profiles.known(view) else { return Vec::new() };
    (0..16).filter(|s| starts >> s & 1 == 1).map(|s| (profile, Slice(s))).collect()
}

/// The instance at the place that a plan names, if it can be there.
fn planned(
    views: &[View<'_>],
    ask: &Ask,
    profiles: &mut Profiles<'_>,
    place: PlannedStart,
) -> Option<BestInstances> {
    let view = views.get(usize::from(place.gpu.0))?;
    let profile = profile_here(view, ask, profiles).ok()?;
    let bit = bit(place.start);
    if view.room_for(profile) == 0 || free_starts(view, profile) & bit == 0 {
        return None;
    }
    Some(BestInstances {
        specs: vec![MigSpec { gpu: view.gpu, profile: profile.id, start: place.start }],
        takes: Takes::of_units(profile.size.into(), view.units()),
        cost: cost_of(view, profile, bit, profile.at(place.start).mask()),
    })
}

/// Weighs every set of at most `n` free starts on one GPU, keeps the best per count in `row`, and reports each start
/// when one instance is asked for, the best set per count otherwise. `known` says that `row` is already filled.
fn weigh_gpu(
    view: &View<'_>,
    profile: &'static Profile,
    row: &mut [Option<StartSet>],
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
        let choice = StartSet { starts, cost: cost_of(view, profile, starts, union) };
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
    row: &[Option<StartSet>],
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
