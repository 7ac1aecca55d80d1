//! The site's own instances: used as they are, by any job that they satisfy.
//!
//! Elsewhere the smallest satisfying profile is made. Here a larger instance will do, and several instances of one job
//! may be of several profiles: every set of idle ones is weighed. There are at most as many as compute slices.

use super::profile_choice::Profiles;
use super::spread::{StartSet, better};
use super::starts::bit;
use super::view::View;
use decision_report::Cost;
use decision_report::report::{Candidate, Constraint, Fate, Report, Starts};
use geometry::{Profile, Slice};
use node_state::{Ask, Kind};

/// Weighs every set of at most `n` of a static GPU's idle instances, keeps the best per count in `row`, and reports each.
pub(super) fn weigh(
    view: &View<'_>,
    ask: &Ask,
    profiles: &mut Profiles<'_>,
    row: &mut [Option<StartSet>],
    n: usize,
    report: &mut Report,
) {
    let mut say =
        |instances, fate| report.push(Candidate { kind: Kind::Mig, gpu: view.gpu, instances, fate });
    if let Some(why) = view.withheld(ask) {
        return say(None, Fate::Ruled(why));
    }
    let mut idle: Vec<(&'static Profile, Slice)> = Vec::new();
    let mut none_will_do = true;
    for instance in view.instances() {
        let Some(profile) = view.model.profile_by_id(instance.profile) else { continue };
        if !profiles.will_do(view, profile) {
            continue;
        }
        none_will_do = false;
        let at = Some((profile, Starts(bit(instance.start))));
        match super::view::first_job(&instance.holder) {
            Some(job) => say(at, Fate::Ruled(Constraint::Taken(job))),
            None => {
                say(at, Fate::Costs(cost(&[(profile, instance.start)], view)));
                idle.push((profile, instance.start));
            }
        }
    }
    if none_will_do {
        return say(None, Fate::Ruled(Constraint::NoStaticInstance));
    }
    let most = n.min(row.len() - 1);
    for_each(&idle, most, &mut Vec::new(), &mut |set| {
        let starts = set.iter().fold(0, |mask, (_, start)| mask | bit(*start));
        let choice = StartSet { starts, cost: cost(set, view) };
        if row[set.len()].is_none_or(|best| better(choice, best)) {
            row[set.len()] = Some(choice);
        }
    });
}

/// Nothing is made, destroyed or opened; each instance is one place less for others.
fn cost(set: &[(&'static Profile, Slice)], view: &View<'_>) -> Cost {
    Cost {
        memory_mib: set.iter().map(|(p, _)| view.model.span_mib(p)).sum(),
        sm: set.iter().map(|(p, _)| p.sm).sum(),
        lost: u32::try_from(set.len()).unwrap_or(u32::MAX),
        ..Cost::default()
    }
}

/// Calls `f` for every set of 1 to `most` of these.
fn for_each<T: Copy>(of: &[T], most: usize, chosen: &mut Vec<T>, f: &mut impl FnMut(&[T])) {
    if chosen.len() >= most {
        return;
    }
    for (i, one) in of.iter().enumerate() {
        chosen.push(*one);
        f(chosen);
        for_each(&of[i + 1..], most, chosen, f);
        chosen.pop();
    }
}
