//! MIG rules against what the captures and the header say.

use super::*;
use crate::engine::node;

fn node(model: &str, mig: bool) -> State {
    let text = format!("[[gpus]]\nmodel = \"{model}\"\nmig = \"{}\"\n", if mig { "on" } else { "off" });
    let (node, mig) = node::parse(&text, None, "n1").unwrap();
    State::new(node, &mig, "/nowhere".into(), 511)
}

fn with_process(state: &mut State, gi: Option<u32>) {
    let pid = std::process::id();
    let started = crate::engine::process::start_time(pid).unwrap();
    state.gpus[0].processes.push(Process {
        pid,
        started,
        gi,
        ci: None,
        memory_mib: 1,
        mps: false,
        cuda_until_ms: None,
    });
}

#[test]
fn life_of_an_instance() {
    let mut s = node("a100-40gb", true);
    let gi = create_gi(&mut s, 0, 14, Some((4, 2))).unwrap();
    let ci = create_ci(&mut s, gi, 1, None).unwrap();
    assert_eq!(destroy_gi(&mut s, gi), Err(Code::InUse), "compute instances first");
    let uuid = s.ci(ci).unwrap().1.uuid.clone();
    destroy_ci(&mut s, ci).unwrap();
    assert_eq!(destroy_ci(&mut s, ci), Err(Code::InvalidArgument), "a stale handle");
    destroy_gi(&mut s, gi).unwrap();
    let again = create_gi(&mut s, 0, 14, Some((4, 2))).unwrap();
    assert_eq!((again.gi, again.serial != gi.serial), (gi.gi, true));
    let ci = create_ci(&mut s, again, 1, None).unwrap();
    assert_eq!(s.ci(ci).unwrap().1.uuid, uuid, "the same layout has the same UUID again");
}

#[test]
fn refusals() {
    let mut off = node("a100-40gb", false);
    assert_eq!(create_gi(&mut off, 0, 14, None), Err(Code::NotSupported));
    let mut s = node("a100-40gb", true);
    assert_eq!(create_gi(&mut s, 0, 99, None), Err(Code::InvalidArgument));
    assert_eq!(create_gi(&mut s, 0, 14, Some((1, 2))), Err(Code::InvalidArgument));
    assert_eq!(create_gi(&mut s, 0, 14, Some((0, 1))), Err(Code::InvalidArgument));
    create_gi(&mut s, 0, 9, Some((0, 4))).unwrap();
    assert_eq!(create_gi(&mut s, 0, 14, Some((2, 2))), Err(Code::InsufficientResources));
    assert_eq!(create_gi(&mut s, 7, 14, None), Err(Code::InvalidArgument));
    create_gi(&mut s, 0, 20, None).unwrap();
    assert_eq!(create_gi(&mut s, 0, 20, None), Err(Code::InsufficientResources), "+me is capped at 1");
}

#[test]
fn without_placement_a_small_instance_first_keeps_out_a_large_one() {
    let mut s = node("a100-40gb", true);
    create_gi(&mut s, 0, 19, None).unwrap();
    create_gi(&mut s, 0, 9, None).unwrap();
    assert_eq!(create_gi(&mut s, 0, 9, None), Err(Code::InsufficientResources));
    assert_eq!(s.gpus[0].instances.iter().map(|i| (i.id, i.start)).collect::<Vec<_>>(), [(2, 0), (7, 4)]);
}

#[test]
fn remaining_capacity_follows_what_exists() {
    let mut s = node("a100-40gb", true);
    assert_eq!([19, 14, 9, 5, 0].map(|p| remaining(&s, 0, p).unwrap()), [7, 3, 2, 1, 1]);
    create_gi(&mut s, 0, 9, Some((4, 4))).unwrap();
    assert_eq!([19, 14, 9, 5, 0].map(|p| remaining(&s, 0, p).unwrap()), [4, 2, 1, 1, 0]);
}

/// Every model: filling a GPU with any one profile gives `max_instances` of it, with distinct ids and disjoint placements.
#[test]
fn each_profile_fits_as_often_as_it_says() {
    for chip in crate::engine::chip::Chip::all() {
        for p in &chip.profiles {
            let mut s = node(&chip.model.key, true);
            let mut made = 0;
            while create_gi(&mut s, 0, p.base.id.0, None).is_ok() {
                made += 1;
            }
            assert_eq!(made, p.base.max_instances, "{} {}", chip.model.key, p.base.name);
            let mut ids: Vec<u32> = s.gpus[0].instances.iter().map(|i| i.id).collect();
            ids.dedup();
            assert_eq!(ids.len(), made as usize);
        }
    }
}

#[test]
fn media_engines_of_an_rtx_pro() {
    let mut s = node("rtx-pro-6000-96gb", true);
    create_gi(&mut s, 0, 65, None).unwrap();
    assert_eq!(create_gi(&mut s, 0, 14, None), Err(Code::InsufficientResources));
    create_gi(&mut s, 0, 67, None).unwrap();
}

#[test]
fn compute_instances_share_an_instance() {
    let mut s = node("a100-40gb", true);
    let gi = create_gi(&mut s, 0, 9, None).unwrap();
    let a = create_ci(&mut s, gi, 0, None).unwrap();
    let b = create_ci(&mut s, gi, 0, Some((2, 1))).unwrap();
    assert_eq!((a.ci, b.ci), (0, 1));
    assert_eq!(ci_remaining(&s, gi, 0), Ok(1));
    assert_eq!(create_ci(&mut s, gi, 1, None), Err(Code::InsufficientResources));
    assert_eq!(create_ci(&mut s, gi, 4, None), Err(Code::NotSupported));
    assert_eq!(create_ci(&mut s, gi, 9, None), Err(Code::InvalidArgument));
}

#[test]
fn mode_waits_for_a_reset_on_ampere_only() {
    let mut s = node("a100-40gb", false);
    assert_eq!(set_mode(&mut s, 0, true), Ok(Activation::ResetRequired));
    assert_eq!((s.gpus[0].mig, s.gpus[0].mig_pending), (false, true));
    reset(&mut s, 0).unwrap();
    assert!(s.gpus[0].mig);
    create_gi(&mut s, 0, 19, None).unwrap();
    assert_eq!(set_mode(&mut s, 0, false), Err(Code::InUse));
    reset(&mut s, 0).unwrap();
    assert!(s.gpus[0].instances.is_empty(), "instances never survive a reset");

    let mut h = node("h100-80gb-sxm", false);
    assert_eq!(set_mode(&mut h, 0, true), Ok(Activation::Done));
    assert!(h.gpus[0].mig);
}

#[test]
fn processes_keep_things_in_use() {
    let mut s = node("h100-80gb-sxm", false);
    with_process(&mut s, None);
    assert_eq!(set_mode(&mut s, 0, true), Err(Code::InUse));
    assert_eq!(reset(&mut s, 0), Err(Code::InUse));
    s.gpus[0].processes.clear();
    set_mode(&mut s, 0, true).unwrap();
    let gi = create_gi(&mut s, 0, 19, None).unwrap();
    let ci = create_ci(&mut s, gi, 0, None).unwrap();
    with_process(&mut s, Some(gi.gi));
    assert_eq!(destroy_ci(&mut s, ci), Err(Code::InUse));
    let p = &mut s.gpus[0].processes[0];
    p.started += 1;
    destroy_ci(&mut s, ci).unwrap();
    destroy_gi(&mut s, gi).unwrap();
}

/// Every way to fill a GPU with base profiles until nothing more fits, each counted once.
fn maximal_partitions(model: &str) -> usize {
    fn fill(
        s: &State,
        out: &mut std::collections::BTreeSet<Vec<(u32, u8)>>,
        seen: &mut std::collections::BTreeSet<Vec<(u32, u8)>>,
    ) {
        let mut key: Vec<_> = s.gpus[0].instances.iter().map(|i| (i.profile, i.start)).collect();
        key.sort_unstable();
        if !seen.insert(key.clone()) {
            return;
        }
        let mut grew = false;
        for p in s.chip(0).unwrap().profiles.iter().filter(|p| p.base.enum_value <= 4) {
            for start in &p.base.starts {
                let mut next = s.clone();
                let placement = Some((start.0.into(), p.base.size.into()));
                if create_gi(&mut next, 0, p.base.id.0, placement).is_ok() {
                    grew = true;
                    fill(&next, out, seen);
                }
            }
        }
        if !grew {
            out.insert(key);
        }
    }
    let mut out = std::collections::BTreeSet::new();
    fill(&node(model, true), &mut out, &mut std::collections::BTreeSet::new());
    out.len()
}

/// FAR (JPDC 2025): an A30 has 5 partitions, an A100 and an H100 19.
#[test]
fn partitions_are_as_many_as_published() {
    assert_eq!(maximal_partitions("a30-24gb"), 5);
    assert_eq!(maximal_partitions("a100-40gb"), 19);
    assert_eq!(maximal_partitions("h100-80gb-sxm"), 19);
}

proptest::proptest! {
    /// Whatever is created and destroyed in whatever order: instances never overlap, ids and UUIDs are unique, and `remaining` is 0
    /// exactly when nothing more can be created.
    #[test]
    fn any_history_is_legal(steps in proptest::collection::vec((0u8..3, 0usize..7, 0usize..8), 1..60)) {
        let mut s = node("a100-40gb", true);
        let profiles: Vec<u32> = s.chip(0).unwrap().profiles.iter().map(|p| p.base.id.0).collect();
        for (kind, profile, pick) in steps {
            let profile = profiles[profile % profiles.len()];
            if kind == 0 {
                let victim = s.gpus[0].instances.get(pick).map(|i| GiRef { gpu: 0, gi: i.id, serial: i.serial });
                if let Some(r) = victim {
                    destroy_gi(&mut s, r).unwrap();
                }
            } else {
                let can = remaining(&s, 0, profile).unwrap() > 0;
                proptest::prop_assert_eq!(create_gi(&mut s, 0, profile, None).is_ok(), can);
            }
            let mut used = 0u16;
            let mut ids = std::collections::BTreeSet::new();
            for i in &s.gpus[0].instances {
                proptest::prop_assert_eq!(used & mask(i.start, i.size), 0);
                used |= mask(i.start, i.size);
                proptest::prop_assert!(ids.insert(i.id));
            }
        }
    }
}
