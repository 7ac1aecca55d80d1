//! MIG geometry as the engine applies it, counted through its own placing.

use crate::common::*;
use geometry::*;
use node_state::*;
use protocol::*;
use std::collections::BTreeSet;

/// Every set of base instances that can be placed one by one on an empty GPU, and those to which none can be added.
/// Partitions are counted as in FAR (JPDC'25): base profiles of one size of memory per slice, by placement.
fn partitions(key: &str, double_memory: bool) -> (usize, usize) {
    let model = Model::find(key).unwrap();
    let places: Vec<MigSpec> = audit::every_place(&node(&[key], MigPolicy::On))
        .filter(|s| {
            let profile = model.profile_by_id(s.profile).unwrap();
            let units = model.placement_units / model.compute_slices.next_power_of_two();
            let double = profile.compute_slices == 1 && profile.size == 2 * units;
            !profile.is_variant() && (double_memory || !double)
        })
        .collect();
    let mut seen: BTreeSet<Vec<MigSpec>> = BTreeSet::new();
    let mut maximal = 0;
    let mut open = vec![Vec::new()];
    while let Some(set) = open.pop() {
        let mut node = node(&[key], MigPolicy::On);
        if !set.is_empty() {
            node.apply(JobId(1), Uid(1), &Grant::Mig(set.clone())).unwrap();
        }
        let mut grew = false;
        for place in &places {
            if node.clone().apply(JobId(2), Uid(1), &Grant::Mig(vec![*place])).is_ok() {
                grew = true;
                let mut next = set.clone();
                next.push(*place);
                next.sort_unstable();
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        maximal += usize::from(!grew);
    }
    (maximal, seen.len())
}

#[test]
fn partitions_are_those_of_the_papers() {
    assert_eq!(partitions("a30-24gb", false), (5, 25));
    assert_eq!(partitions("a100-40gb", false), (19, 297));
    assert_eq!(partitions("h100-80gb-sxm", false), (19, 297));
    assert_eq!(partitions("rtx-pro-6000-96gb", false), (5, 25));
    assert_eq!(partitions("a100-40gb", true), (78, 722));
}

#[test]
fn an_empty_gpu_has_so_many_placements() {
    let left = |key: &str| Model::find(key).unwrap().placements_left(0);
    assert_eq!([left("a30-24gb"), left("a100-40gb"), left("rtx-pro-6000-96gb")], [7, 18, 7]);
}

/// What the MIG search relies on: wherever a profile fits, every smaller base profile fits inside its place, takes no
/// more compute slices, and costs less.
#[test]
fn smaller_profiles_fit_wherever_larger_ones_do() {
    for model in Model::all() {
        let base: Vec<&Profile> = model.profiles.iter().filter(|p| !p.is_variant()).collect();
        for (i, small) in base.iter().enumerate() {
            for large in &base[i + 1..] {
                assert!(
                    small.compute_slices <= large.compute_slices,
                    "{} {} {}",
                    model.key,
                    small.name,
                    large.name
                );
                assert!((small.size, small.sm) < (large.size, large.sm) || small.size < large.size);
                for start in &large.starts {
                    let within = |s: &Slice| small.at(*s).mask() & !large.at(*start).mask() == 0;
                    assert!(
                        small.starts.iter().any(within),
                        "{} {} {}@{start}",
                        model.key,
                        small.name,
                        large.name
                    );
                }
            }
        }
    }
}

/// The score counts free units only. That is exact as long as neither compute slices nor the counts per profile ever
/// bind before the units do, for base profiles.
#[test]
fn free_units_decide_what_fits() {
    for key in ["a30-24gb", "a100-40gb", "h200-141gb", "rtx-pro-6000-96gb"] {
        let model = Model::find(key).unwrap();
        let places: Vec<MigSpec> = audit::every_place(&node(&[key], MigPolicy::On))
            .filter(|s| !model.profile_by_id(s.profile).unwrap().is_variant())
            .collect();
        let mut seen: BTreeSet<Vec<MigSpec>> = BTreeSet::new();
        let mut open = vec![Vec::new()];
        while let Some(set) = open.pop() {
            let mut base = node(&[key], MigPolicy::On);
            if !set.is_empty() {
                base.apply(JobId(1), Uid(1), &Grant::Mig(set.clone())).unwrap();
            }
            let mask = |s: &MigSpec| model.profile_by_id(s.profile).unwrap().at(s.start).mask();
            let taken = set.iter().map(mask).fold(0, |a, b| a | b);
            let mut fit = 0;
            for place in &places {
                if base.clone().apply(JobId(2), Uid(1), &Grant::Mig(vec![*place])).is_ok() {
                    fit += 1;
                    let mut next = set.clone();
                    next.push(*place);
                    next.sort_unstable();
                    if seen.insert(next.clone()) {
                        open.push(next);
                    }
                }
            }
            assert_eq!(model.placements_left(taken), fit, "{key} {set:?}");
        }
    }
}
