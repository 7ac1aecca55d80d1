//! Tests the search for an earlier place against a case that a person can follow and against a look at every second.
#![allow(clippy::unwrap_used, reason = "tests")]

use geometry::{GpuIndex, JobId, Model, Slice, Uid};
use node_state::{Ask, Gpu, MigPolicy, Node, Policy};
use proptest::prelude::*;
use protocol::{Grant, Isolation, MigSpec, Request};
use replay::earlier::{Held, Waited, earlier};
use topology::HardwareGraph;

fn a100() -> &'static Model {
    Model::find("a100-40gb").unwrap()
}

fn node() -> Node {
    Node::new(vec![Gpu::new(a100(), MigPolicy::Dynamic)], HardwareGraph::uniform(1, 25.0))
}

fn policy() -> Policy {
    site_limits::policy_for(&site_config::of_nodes(Vec::new()), None, &[])
}

fn held(start: u64, end: u64, name: &str, at: u8) -> Held {
    let profile = a100().profile(name).unwrap().id;
    let grant = Grant::Mig(vec![MigSpec { gpu: GpuIndex(0), profile, start: Slice(at) }]);
    Held { start, end: Some(end), uid: Uid(1), grant }
}

fn ask(mem_mib: u64) -> Ask {
    let request = Request { mem_mib: Some(mem_mib), ..Request::new(Isolation::Mig(None)) };
    Ask::new(JobId(1 << 20), Uid(2), request)
}

/// How long before its start a job may have had a place.
const SLACK: u64 = 10;

/// The answer for a job that waited from 0 to 100 for 20 GB and used 8.
fn of(held: &[Held]) -> Option<u64> {
    let (node, policy, asked, smaller) = (node(), policy(), ask(19_000), ask(8_000));
    let (from, to, slack) = (0, 100, SLACK);
    earlier(&Waited { node: &node, held, from, to, slack, asked: &asked, smaller: &smaller, policy: &policy })
}

#[test]
fn the_place_must_stay_until_the_start() {
    let long = [held(0, 100, "3g.20gb", 0)];
    let with = |others: &[Held]| of(&[&long[..], others].concat());
    // A 2g.10gb beside it leaves one for the smaller request from the beginning, and none for the larger.
    assert_eq!(with(&[held(0, 100, "2g.10gb", 4)]), Some(100));
    // Slurm saw a little later that there was room.
    assert_eq!(with(&[held(0, 90, "2g.10gb", 4)]), Some(90));
    assert_eq!(with(&[held(0, 89, "2g.10gb", 4)]), None);
    // All is full until 30.
    assert_eq!(with(&[held(0, 30, "3g.20gb", 4), held(30, 100, "2g.10gb", 4)]), Some(70));
    // Somebody took the place at 60, and gave it back at 80.
    let other = held(60, 80, "1g.10gb", 6);
    assert_eq!(with(&[held(0, 100, "2g.10gb", 4), other]), Some(20));
}

#[test]
fn what_cannot_be_known_is_not_said() {
    // The GPU was free: something else kept the job.
    assert_eq!(of(&[]), None);
    // Until 50 the GPUs kept it; then something else.
    assert_eq!(of(&[held(0, 50, "7g.40gb", 0)]), None);
    // Nothing was free before.
    assert_eq!(of(&[held(0, 100, "7g.40gb", 0)]), None);
    // The accounting says that the GPU was taken when the job started.
    assert_eq!(of(&[held(0, 101, "7g.40gb", 0)]), None);
    // Two jobs in the same place.
    assert_eq!(
        of(&[held(0, 100, "3g.20gb", 0), held(10, 40, "3g.20gb", 0), held(0, 100, "2g.10gb", 4)]),
        None
    );
}

/// The units that an instance takes, as bits.
fn units(grant: &Grant) -> u16 {
    let Grant::Mig(specs) = grant else { panic!("{grant:?}") };
    specs
        .iter()
        .map(|spec| a100().profile_by_id(spec.profile).unwrap().at(spec.start).mask())
        .fold(0, |a, b| a | b)
}

/// Answers by looking at every second: who is there is told from the times alone, and whether jobs go together from the
/// units that each takes. `None` for the units of jobs that do not.
fn looked(held: &[Held], to: u64) -> Option<u64> {
    let there = |at: u64| {
        let mut taken = 0_u16;
        for job in held.iter().filter(|job| (job.start..job.end.unwrap()).contains(&at)) {
            if taken & units(&job.grant) != 0 {
                return None;
            }
            taken |= units(&job.grant);
        }
        Some(taken)
    };
    let place = |at: u64, ask: &Ask| {
        let mut node = node();
        for (id, job) in (1..).map(JobId).zip(held) {
            if (job.start..job.end.unwrap()).contains(&at) {
                node.apply(id, job.uid, &job.grant).unwrap();
            }
        }
        placement::decide(&node, ask, &policy()).chosen.map(|grant| units(&grant))
    };
    let (asked, smaller) = (ask(19_000), ask(8_000));
    there(to)?;
    place(to, &asked)?;
    let fits: Option<Vec<bool>> = (0..to).map(|at| there(at).map(|_| place(at, &asked).is_some())).collect();
    let fits = fits?;
    let fits = |at: u64| fits[usize::try_from(at).unwrap()];
    // The last seconds in which there was a place for all of it, and those before in which there was none.
    let opened = (0..=to).find(|at| (*at..to).all(fits))?;
    let kept = (0..=opened).find(|at| (*at..opened).all(|at| !fits(at)))?;
    if to - opened > SLACK {
        return None;
    }
    let stays =
        |at: u64, units: u16| (at..to).all(|later| there(later).is_some_and(|taken| taken & units == 0));
    let found = (kept..opened).find(|at| place(*at, &smaller).is_some_and(|units| stays(*at, units)))?;
    Some(opened - found)
}

/// A job somewhere on the GPU in the first 130 seconds.
fn job() -> impl Strategy<Value = Held> {
    let profiles = a100().profiles.iter().filter(|profile| !profile.is_variant());
    let places: Vec<(String, u8)> =
        profiles.flat_map(|p| p.starts.iter().map(|start| (p.name.clone(), start.0))).collect();
    (0_u64..110, 1_u64..60, proptest::sample::select(places))
        .prop_map(|(start, long, (name, at))| held(start, start + long, &name, at))
}

/// Jobs of which nobody has the place of another, for the most part.
fn jobs() -> impl Strategy<Value = Vec<Held>> {
    (proptest::collection::vec(job(), 0..12), any::<bool>()).prop_map(|(all, as_they_come)| {
        let mut kept: Vec<Held> = Vec::new();
        for job in all {
            let meets = |other: &Held| {
                other.start < job.end.unwrap()
                    && job.start < other.end.unwrap()
                    && units(&other.grant) & units(&job.grant) != 0
            };
            if as_they_come || !kept.iter().any(meets) {
                kept.push(job);
            }
        }
        kept
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_look_at_every_second_says_the_same(held in jobs()) {
        prop_assert_eq!(of(&held), looked(&held, 100));
    }
}
