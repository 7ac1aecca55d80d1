//! MIG rules against what the captures and the header say.

use super::*;
use crate::engine::node;

fn node(model: &str, mig: bool) -> State {
    let text = format!("[[gpus]]\nmodel = \"{model}\"\nmig = \"{}\"\n", if mig { "on" } else { "off" });
    let (node, mig) = node::parse(&text, "n1").unwrap();
    State::new(node, &mig, "/nowhere".into(), 511)
}

fn with_process(state: &mut State, gi: Option<u32>) {
    let pid = std::process::id();
    let started = crate::engine::process::start_time(pid).unwrap();
    state.gpus[0].processes.push(Process { pid, started, gi, ci: None, memory_mib: 1, mps: false });
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
