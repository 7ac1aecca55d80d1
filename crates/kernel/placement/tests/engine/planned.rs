//! Moldable jobs: their size when nobody plans it, and places that a plan wants.

use decision_report::*;
use geometry::*;
use node_state::*;
use placement::*;
use proptest::prelude::*;
use protocol::moldable::{PlannedStart, SizeTime};
use protocol::*;

use crate::common::{ask, asks, empty_nodes, events, live, node, run, site_policies};

fn with_times(job: u32, isolation: &str, mem: &str, times: &str, place: &str) -> Ask {
    let mut ask = ask(job, isolation, mem);
    if !times.is_empty() {
        ask.request.times = moldable::parse_times(times).unwrap();
    }
    ask.request.place = PlannedStart::parse(place);
    ask
}

fn spec(decision: &Decision) -> (String, u16, u8) {
    match &decision.chosen {
        Some(Grant::Mig(specs)) => {
            let model = decision.report.models[usize::from(specs[0].gpu.0)];
            (model.profile_by_id(specs[0].profile).unwrap().name.clone(), specs[0].gpu.0, specs[0].start.0)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_a_plan_the_size_with_the_least_work() {
    let mut n = node(&["a100-40gb", "a100-40gb"], MigPolicy::On);
    let policy = Policy { default_mem_mib: Some(30_000), ..Policy::default() };
    let decision = run(&mut n, &with_times(1, "mig", "", "1g:60,2g:25,7g:10", ""), &policy);
    assert_eq!(spec(&decision).0, "2g.10gb", "the site's default memory is not for sizes the user lists");
    assert!(
        decision.reason().starts_with("fewest slice-seconds of 1g, 2g, 7g; 28 of 108 SMs"),
        "{}",
        decision.reason()
    );
    let decision = run(&mut n, &with_times(2, "mig", "12G", "1g:60,2g:25,7g:10", ""), &policy);
    assert_eq!(spec(&decision).0, "7g.40gb", "sizes with too little memory are left out");
    let decision = run(&mut n, &with_times(3, "mig", "12G", "1g:60,2g:25", ""), &policy);
    assert_eq!(decision.chosen, None, "none of its sizes has the memory");
}

#[test]
fn a_planned_place_is_taken_if_it_can_be() {
    let mut n = node(&["a100-40gb", "a100-40gb"], MigPolicy::On);
    let policy = Policy::default();
    let first = run(&mut n, &with_times(1, "mig:2g.10gb", "", "", "1@2"), &policy);
    assert_eq!(spec(&first), ("2g.10gb".to_owned(), 1, 2));
    assert_eq!(first.reason(), "as named, at the planned place; 28 of 108 SMs");
    let stale_is = "as named, the planned place 1@2 is not free; 28 of";
    let stale = run(&mut n, &with_times(2, "mig:2g.10gb", "", "", "1@2"), &policy);
    assert_eq!(spec(&stale).0, "2g.10gb");
    assert!(stale.reason().starts_with(stale_is), "{}", stale.reason());
    for (job, nonsense) in (3..).zip(["1@1", "1@15", "63@0"]) {
        let placed = run(&mut n, &with_times(job, "mig:1g.5gb", "", "", nonsense), &policy);
        assert!(placed.chosen.is_some(), "{nonsense}");
    }
    let mut n = node(&["a100-40gb", "a100-40gb"], MigPolicy::On);
    let mut not_offered = with_times(9, "mig:1g.5gb", "", "", "0@6");
    not_offered.allowed = Some([GpuIndex(1)].into_iter().collect());
    assert_eq!(spec(&run(&mut n, &not_offered, &policy)).1, 1);
}

fn moldable_asks() -> impl Strategy<Value = Ask> {
    let times = prop::collection::btree_map(1_u8..9, 1_u64..100, 0..6);
    let place = prop::option::of((0_u16..6, 0_u8..13));
    (asks(2), times, place).prop_map(|(mut ask, times, place)| {
        let time = |(slices, millis)| SizeTime { slices, millis };
        ask.request.times = times.into_iter().map(time).collect();
        ask.request.place =
            place.map(|(gpu, start)| PlannedStart { gpu: GpuIndex(gpu), start: Slice(start) });
        ask
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// `run` audits, which knows what a place and times mean without `decide`.
    #[test]
    fn places_and_times_pass_the_audit(
        mut n in empty_nodes(4),
        before in events(8),
        policy in site_policies(),
        questions in prop::collection::vec(moldable_asks(), 1..4),
    ) {
        live(&mut n, &policy, &before);
        for (mut question, job) in questions.into_iter().zip(100..) {
            question.job = JobId(job);
            let _ = run(&mut n, &question, &policy);
        }
    }

    #[test]
    fn a_place_never_makes_a_job_wait_nor_changes_its_size(
        mut n in empty_nodes(4),
        before in events(8),
        policy in site_policies(),
        question in moldable_asks(),
    ) {
        live(&mut n, &policy, &before);
        let planned = decide(&n, &question, &policy);
        let mut plain = question.clone();
        plain.request.place = None;
        let plain = decide(&n, &plain, &policy);
        prop_assert_eq!(planned.chosen.is_some(), plain.chosen.is_some());
        if let (Some(Grant::Mig(a)), Some(Grant::Mig(b))) = (&planned.chosen, &plain.chosen)
            && a.first().map(|s| s.gpu) == b.first().map(|s| s.gpu)
        {
            prop_assert_eq!(a.first().map(|s| s.profile), b.first().map(|s| s.profile));
        }
    }
}
