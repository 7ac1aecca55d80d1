//! The factors that section 5 of the paper proves: without reconfiguration times, FAR takes at most 7/4 of the optimum on an A30 and
//! twice the optimum on an A100, whatever the tasks are, as long as no task is slower on a larger instance.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss, reason = "tests")]

use far::{Costs, Problem, STEPS_PER_MS, Task, best, far, replay};
use geometry::Model;
use proptest::prelude::*;

/// A task whose times fall with size, by anything from nothing to nearly all.
fn task(sizes: usize) -> impl Strategy<Value = Task> {
    let falls = prop::collection::vec(prop_oneof![Just(1000_u64), 1_u64..1000], sizes - 1);
    (1_u64..100_000, falls).prop_map(|(first, falls)| {
        let mut times = vec![Some(first * 1000)];
        let mut time = first * 1000;
        for fall in falls {
            time = (time * fall / 1000).max(1);
            times.push(Some(time));
        }
        Task { times }
    })
}

fn free_of_charge(model: &str, tasks: Vec<Task>) -> Problem {
    let mut problem = Problem::new(Model::find(model).unwrap(), 1, tasks).unwrap();
    let sizes = problem.tree.sizes.len();
    problem.costs = Costs { create: vec![0; sizes], destroy: vec![0; sizes] };
    problem
}

/// FAR's makespan over the proven optimum, before and after refinement; `None` if no optimum was proven.
fn factors(problem: &Problem) -> Option<[f64; 2]> {
    let plan = best(problem, 20 * STEPS_PER_MS);
    let optimum = replay(problem, &plan.schedule).unwrap().makespan as f64;
    let far = far(problem);
    let refined = replay(problem, &far.schedule).unwrap().makespan;
    plan.proven_optimal.then(|| [far.unrefined, refined].map(|makespan| makespan as f64 / optimum))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn at_most_seven_quarters_on_an_a30(tasks in prop::collection::vec(task(3), 1..9)) {
        if let Some(factors) = factors(&free_of_charge("a30-24gb", tasks)) {
            prop_assert!(factors.iter().all(|factor| *factor <= 1.75 + 1e-9), "{factors:?}");
        }
    }

    #[test]
    fn at_most_twice_the_optimum_on_an_a100(tasks in prop::collection::vec(task(5), 1..9)) {
        if let Some(factors) = factors(&free_of_charge("a100-40gb", tasks)) {
            prop_assert!(factors.iter().all(|factor| *factor <= 2.0 + 1e-9), "{factors:?}");
        }
    }
}

/// The properties above say something: the optimum of small batches is proven.
#[test]
fn the_optimum_of_small_batches_is_proven() {
    let tasks = |n: u64| {
        let times = |i: u64| [9, 5, 4, 3, 2].map(|t| Some(t * 1_000_000 + i * 70_000)).to_vec();
        (0..n).map(|i| Task { times: times(i) }).collect::<Vec<_>>()
    };
    for n in 1..6 {
        assert!(factors(&free_of_charge("a100-40gb", tasks(n))).is_some(), "{n} tasks");
    }
}
