//! The free starts of a profile on a GPU, and the cost of instances there.

use super::view::View;
use decision_report::Cost;
use decision_report::report::Constraint;
use geometry::{Profile, Slice};
use node_state::{GpuState, Holder, MigPolicy, Purpose};

/// The starts of `profile` whose units no job holds: bit `i` for a start at unit `i`.
pub(super) fn free_starts(view: &View<'_>, profile: &Profile) -> u16 {
    if view.purpose == Purpose::Static {
        return view.static_idle().filter(|(p, _)| p.id == profile.id).fold(0, |mask, (_, s)| mask | bit(s));
    }
    let free = profile.starts.iter().filter(|s| profile.at(**s).mask() & view.held == 0);
    free.fold(0, |mask, s| mask | bit(*s))
}

/// Lists the starts of `profile` that have no idle instance of it: each with what a new instance costs there, without its size, or with
/// what stands in its way.
pub(super) fn new_instances(
    view: &View<'_>,
    profile: &'static Profile,
) -> impl Iterator<Item = (Slice, Result<Cost, Constraint>)> {
    let free = if view.room_for(profile) == 0 { 0 } else { free_starts(view, profile) };
    let is_idle = move |start: Slice| {
        let mut idle = view.instances().iter().filter(|i| i.holder == Holder::Idle);
        idle.any(|i| i.profile == profile.id && i.start == start)
    };
    let cost = move |start: Slice| match free & bit(start) {
        0 => Err(view.holder_of(profile.at(start)).map_or(Constraint::ProfileLimit, Constraint::Taken)),
        _ => Ok(cost_of(view, profile, bit(start), profile.at(start).mask()).without_size()),
    };
    profile
        .starts
        .iter()
        .copied()
        .filter(move |start| !is_idle(*start))
        .map(move |start| (start, cost(start)))
}

/// Gives the cost of an idle instance, without its size, or why no share or seat comes there.
pub(super) fn idle_instance(view: &View<'_>, profile: &Profile, start: Slice) -> Result<Cost, Constraint> {
    if profile.is_variant() {
        return Err(Constraint::VariantNotNamed);
    }
    if view.room_for(profile) == 0 {
        return Err(Constraint::ProfileLimit);
    }
    Ok(cost_of(view, profile, bit(start), profile.at(start).mask()).without_size())
}

pub(super) fn bit(start: Slice) -> u16 {
    1_u16.checked_shl(u32::from(start.0)).unwrap_or(0)
}

/// Calls `f(starts, units, count)` for every set of 1 to `most` starts in `free` that do not overlap.
pub(super) fn for_each_set(profile: &Profile, free: u16, most: usize, f: &mut impl FnMut(u16, u16, usize)) {
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

/// Cost of instances of `profile` at `starts` on this GPU; `union` is the bit mask of all their units.
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
    let switch = switch && matches!(view.state, GpuState::Free);
    Cost {
        memory_mib: view.model.span_mib(profile) * u64::from(n),
        sm: profile.sm * n,
        opened: u32::from(view.untouched && view.purpose != Purpose::Static),
        lost: view.left(0, None) - view.left(union, Some(profile)),
        switched: u32::from(switch),
        created: (starts & !reused).count_ones(),
        destroyed,
    }
}
