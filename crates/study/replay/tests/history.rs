//! Tests the history against cases that a person can follow and against looks at every second.
#![allow(clippy::unwrap_used, reason = "tests")]

use geometry::{GpuIndex, Model, Slice};
use node_state::{Gpu, MigPolicy, Node, Policy};
use proptest::prelude::*;
use protocol::{Grant, Isolation, MigSpec, Request};
use replay::history::{Interval, Placed, history};
use replay::{Instances, Job, NodeChoice, Site, replay};
use topology::HardwareGraph;

fn a100() -> &'static Model {
    Model::find("a100-40gb").unwrap()
}

fn node(gpus: usize) -> Node {
    Node::new(vec![Gpu::new(a100(), MigPolicy::Dynamic); gpus], HardwareGraph::uniform(gpus, 25.0))
}

fn instance(name: &str, start: u8) -> Grant {
    let profile = a100().profile(name).unwrap().id;
    Grant::Mig(vec![MigSpec { gpu: GpuIndex(0), profile, start: Slice(start) }])
}

fn placed(start: u64, end: u64, grant: Grant) -> Placed {
    Placed { start, end: Some(end), parts: vec![(0, grant)] }
}

#[test]
fn instances_come_and_go() {
    let jobs = [
        placed(0, 10, instance("3g.20gb", 0)),
        // The same instance again.
        placed(12, 15, instance("3g.20gb", 0)),
        placed(12, 30, instance("2g.10gb", 4)),
        // It takes the first one's place; the other stays.
        placed(20, 25, instance("1g.5gb", 0)),
        Placed { start: 40, end: None, parts: vec![(0, Grant::Whole(vec![GpuIndex(0)]))] },
    ];
    let found = history(&[node(1)], &jobs, &[0, 20, 50]);
    let count = |created, destroyed, reused| Instances { created, destroyed, reused };
    let first = Interval { started: 3, instances: count(2, 0, 1), held: 3 * 13 + 2 * 8, idle: 3 * (2 + 5) };
    let held = 2 * 10 + 5 + 7 * 10;
    let second = Interval { started: 2, instances: count(1, 3, 0), held, idle: 15 + 2 * 10 };
    assert_eq!((found.intervals, found.misfits), (vec![first, second], 0));
}

#[test]
fn what_was_there_before_counts_as_there() {
    let jobs = [placed(0, 100, instance("2g.10gb", 0)), placed(5, 8, instance("1g.5gb", 2))];
    let found = history(&[node(1)], &jobs, &[10, 20]);
    let none = Instances::default();
    assert_eq!(found.intervals, [Interval { started: 0, instances: none, held: 20, idle: 10 }]);
}

#[test]
fn a_job_that_starts_as_another_ends_is_no_misfit() {
    let whole = || Grant::Whole(vec![GpuIndex(0)]);
    let jobs = [placed(10, 20, whole()), placed(0, 10, whole()), placed(15, 18, whole())];
    let found = history(&[node(1)], &jobs, &[0, 30]);
    assert_eq!((found.misfits, found.intervals[0].held), (1, 7 * 20));
}

#[test]
fn jobs_of_less_than_a_second_leave_room_for_those_that_start_in_it() {
    let whole = || Grant::Whole(vec![GpuIndex(0)]);
    let jobs =
        [placed(0, 10, whole()), placed(10, 15, whole()), placed(10, 10, whole()), placed(10, 9, whole())];
    let found = history(&[node(1)], &jobs, &[0, 30]);
    assert_eq!((found.misfits, found.intervals[0].started, found.intervals[0].held), (0, 4, 7 * 15));
}

#[test]
fn nothing_is_a_history_too() {
    assert_eq!(history(&[], &[], &[]).intervals, []);
    assert_eq!(history(&[node(1)], &[], &[5, 6]).intervals, [Interval::default()]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// The history of a replay's placements counts what the replay counted, however the time is divided.
    #[test]
    fn a_replays_own_placements_have_its_counts(
        asks in prop::collection::vec((0u64..50, 1u64..20, 1000u64..35_000), 1..30), middle in 1u64..400
    ) {
        let job = |(submit, run_s, mib): &(u64, u64, u64)| Job {
            submit: *submit, run_s: *run_s, limit_s: None, nodes: 1,
            cpus: 0, mem_mib: 0, uid: geometry::Uid(0), plain: false,
            request: Request { mem_mib: Some(*mib), ..Request::new(Isolation::Mig(None)) },
        };
        let mut jobs: Vec<Job> = asks.iter().map(job).collect();
        // Jobs that start in one second count in the order of the list, and the queue is in the order of submission.
        jobs.sort_by_key(|job| job.submit);
        let site = Site { nodes: vec![node(1), node(2)], hosts: Vec::new(), choice: NodeChoice::Slurm, policy: Policy::default() };
        let ran: Vec<_> = replay(&site, &jobs, 1, &mut |_| ()).into_iter().map(Option::unwrap).collect();
        let mut counted = Instances::default();
        ran.iter().for_each(|ran| counted += ran.instances);
        let placed: Vec<Placed> = jobs
            .iter()
            .zip(&ran)
            .map(|(job, ran)| Placed { start: ran.start, end: Some(ran.start + job.run_s), parts: ran.parts.clone() })
            .collect();
        let found = history(&site.nodes, &placed, &[0, middle, 10_000]);
        let mut sum = Instances::default();
        found.intervals.iter().for_each(|interval| sum += interval.instances);
        prop_assert_eq!((sum, found.misfits), (counted, 0));
        prop_assert_eq!(found.intervals.iter().map(|i| i.started).sum::<u64>(), jobs.len() as u64);
        let slices = |grant: &Grant| -> u64 {
            let Grant::Mig(specs) = grant else { panic!("{grant:?}") };
            specs.iter().map(|s| u64::from(a100().profile_by_id(s.profile).unwrap().compute_slices)).sum()
        };
        let held: u64 = jobs.iter().zip(&ran).map(|(job, ran)| slices(&ran.parts[0].1) * job.run_s).sum();
        prop_assert_eq!(found.intervals.iter().map(|i| i.held).sum::<u64>(), held);
    }
}
