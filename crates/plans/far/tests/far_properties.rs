//! Properties of every planner: schedules replay, bounds hold, small proofs agree with brute force.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    reason = "tests"
)]

mod far_brute;

use far::{
    Costs, GpuNow, Held, OpKind, Problem, STEPS_PER_MS, Task, Tree, Violation, best, far, joined, replay,
};
use geometry::Model;
use proptest::prelude::*;

const MODELS: [&str; 4] = ["a30-24gb", "a100-40gb", "h100-80gb-sxm", "rtx-pro-6000-96gb"];

/// Tasks whose times fall with size now and then, rise now and then, and are missing now and then.
fn tasks(sizes: usize, n: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Task>> {
    let time = prop_oneof![8 => (1u64..60_000_000).prop_map(Some), 1 => Just(None)];
    let task = prop::collection::vec(time, sizes).prop_filter("one size", |t| t.iter().any(Option::is_some));
    prop::collection::vec(task.prop_map(|times| Task { times }), n)
}

fn problem(n: std::ops::Range<usize>) -> impl Strategy<Value = Problem> {
    (0..MODELS.len(), 1usize..4).prop_flat_map(move |(m, gpus)| {
        let model = Model::find(MODELS[m]).unwrap();
        let sizes = Tree::of(model).unwrap().sizes.len();
        tasks(sizes, n.clone()).prop_map(move |tasks| Problem::new(model, gpus, tasks).unwrap())
    })
}

/// The same on GPUs that hold instances already, some of them for ever.
fn busy_problem() -> impl Strategy<Value = Problem> {
    let until = prop_oneof![Just(Some(0)), (1u64..40_000_000).prop_map(Some), Just(None)];
    let held = prop::collection::vec((0usize..32, until), 0..6);
    (problem(0..12), prop::collection::vec(held, 3), any::<bool>()).prop_filter_map(
        "some place",
        |(mut p, held, lanes)| {
            for (g, (gpu, wanted)) in p.gpus.iter_mut().zip(held).enumerate() {
                *gpu = GpuNow { lane: if lanes { g } else { 0 }, held: Vec::new(), blocked: Vec::new() };
                let mut taken = 0;
                for (node, until) in wanted {
                    let node = node % p.tree.nodes.len();
                    if taken & p.tree.nodes[node].mask == 0 {
                        taken |= p.tree.nodes[node].mask;
                        gpu.held.push(Held { node, until });
                    }
                }
            }
            p.check().is_ok().then_some(p)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_plan_of_far_replays_without_conflict(p in problem(0..40)) {
        let schedule = far(&p).schedule;
        let replayed = replay(&p, &schedule).unwrap();
        prop_assert_eq!(replayed.makespan, schedule.makespan());
        prop_assert_eq!(replayed.earliest, schedule);
        prop_assert!(p.baseline() <= replayed.makespan);
    }

    #[test]
    fn the_default_policy_replays_and_is_no_worse_than_far(p in problem(0..25)) {
        let plan = best(&p, STEPS_PER_MS);
        let replayed = replay(&p, &plan.schedule).unwrap();
        prop_assert_eq!(replayed.earliest, plan.schedule);
        prop_assert!(replayed.makespan <= far(&p).schedule.makespan());
        prop_assert!(plan.lower_bound <= replayed.makespan);
    }

    #[test]
    fn any_state_of_the_gpus_can_be_continued(p in busy_problem()) {
        let plan = best(&p, STEPS_PER_MS);
        let replayed = replay(&p, &plan.schedule).unwrap();
        prop_assert_eq!(replayed.makespan, plan.schedule.makespan());
        prop_assert!(plan.lower_bound <= replayed.makespan);
    }

    /// Short times, so that much happens at the same instant.
    #[test]
    fn some_reconfigurations_may_take_no_time(mut p in problem(1..12), some in any::<u32>()) {
        p.tasks.iter_mut().flat_map(|t| t.times.iter_mut().flatten()).for_each(|time| *time = 1 + *time % 3);
        let costs = p.costs.create.iter_mut().chain(&mut p.costs.destroy);
        costs.enumerate().for_each(|(k, cost)| *cost = u64::from(some >> k & 1));
        for schedule in [far(&p).schedule, best(&p, STEPS_PER_MS).schedule] {
            let replayed = replay(&p, &schedule);
            prop_assert_eq!(replayed.map(|r| r.earliest), Ok(schedule));
        }
    }

    #[test]
    fn batches_follow_one_another(first in problem(1..15), seed in 0usize..15, arrival in 0u64..50_000_000, policy in 0..3) {
        let plan = |p: &Problem, k: usize| if (policy >> k) & 1 == 0 { far(p).schedule } else { best(p, STEPS_PER_MS).schedule };
        let one = plan(&first, 0);
        let mut tasks = first.tasks.clone();
        tasks.rotate_left(seed % first.tasks.len());
        let second = first.then(&one, arrival, tasks.clone());
        let two = plan(&second, 1);
        prop_assert!(two.runs.iter().all(|r| r.begin >= arrival));
        prop_assert_eq!(replay(&second, &two).unwrap().makespan, two.makespan());
        let third = second.then(&two, 0, tasks);
        let three = plan(&third, 0);
        let (all, schedule) = joined(&[(&first, &one), (&second, &two), (&third, &three)]).unwrap();
        prop_assert_eq!(replay(&all, &schedule).unwrap().makespan, schedule.makespan());
    }

    #[test]
    fn a_damaged_schedule_is_found_out(p in problem(1..12), pick in any::<prop::sample::Index>(), early in 1u64..1000) {
        let schedule = far(&p).schedule;
        let mut earlier = schedule.clone();
        let run = &mut earlier.runs[pick.index(p.tasks.len())];
        run.begin -= early;
        run.end -= early;
        prop_assert!(replay(&p, &earlier).is_err(), "moved earlier");
        let mut lost = schedule.clone();
        lost.runs.remove(pick.index(p.tasks.len()));
        let lost = matches!(replay(&p, &lost), Err(Violation::NotOnce { .. }));
        prop_assert!(lost, "task lost");
        let mut uncreated = schedule.clone();
        let create = uncreated.ops.iter().position(|o| o.kind == OpKind::Create).unwrap();
        uncreated.ops.remove(create);
        prop_assert!(replay(&p, &uncreated).is_err(), "instance never created");
        let mut shorter = schedule;
        shorter.runs[pick.index(p.tasks.len())].end -= 1;
        let shorter = matches!(replay(&p, &shorter), Err(Violation::Duration { .. }));
        prop_assert!(shorter, "task cut short");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// With costs of the size of the tasks, the order of reconfigurations matters as much as the assignment. Batches as
    /// small as these are solved, whatever the model: assignments and orders.
    #[test]
    fn small_batches_are_solved(
        a100 in any::<bool>(),
        times in prop::collection::vec(prop::collection::vec(1u64..40, 5), 1..4),
        cost in 0u64..6,
        few in 0u64..4000,
    ) {
        let model = Model::find(if a100 { "a100-40gb" } else { "a30-24gb" }).unwrap();
        let sizes = if a100 { 5 } else { 3 };
        let task = |t: Vec<u64>| Task { times: t.into_iter().take(sizes).map(Some).collect() };
        let mut p = Problem::new(model, 1, times.into_iter().map(task).collect()).unwrap();
        let create = (0..sizes as u64).map(|k| cost + k).collect();
        let destroy = (0..sizes as u64).map(|k| cost + (k + 1) % 2).collect();
        p.costs = Costs { create, destroy };
        let plan = best(&p, 20 * STEPS_PER_MS);
        let replayed = replay(&p, &plan.schedule).unwrap();
        prop_assert_eq!(&replayed.earliest, &plan.schedule);
        let optimum = far_brute::optimum(&p);
        prop_assert_eq!((replayed.makespan, plan.lower_bound, plan.proven_optimal), (optimum, optimum, true));
        // A search that ends too early still gives no bound above the optimum.
        let cut = best(&p, few);
        prop_assert!(cut.lower_bound <= optimum && replay(&p, &cut.schedule).unwrap().makespan >= optimum);
    }

    /// Without costs nothing is left open: the search is exact and must say so.
    #[test]
    fn without_costs_small_batches_are_solved(times in prop::collection::vec(prop::collection::vec(1u64..100, 3), 1..5)) {
        let model = Model::find("a30-24gb").unwrap();
        let tasks = times.into_iter().map(|t| Task { times: t.into_iter().map(Some).collect() }).collect();
        let mut p = Problem::new(model, 1, tasks).unwrap();
        p.costs = Costs { create: vec![0; 3], destroy: vec![0; 3] };
        let plan = best(&p, 50 * STEPS_PER_MS);
        prop_assert_eq!(plan.schedule.makespan(), far_brute::optimum(&p));
        prop_assert!(plan.proven_optimal);
    }
}
