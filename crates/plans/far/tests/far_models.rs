//! Every model of `data/models.toml`: whatever tasks come, plans of all policies replay, and batches follow one another.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use far::{
    MAX_TIME, Micros, Policy, PolicyError, Problem, STEPS_PER_MS, Task, Tree, best, far, joined, plan, replay,
};
use geometry::Model;
use proptest::prelude::*;

/// From a microsecond over minutes to the longest, or impossible.
fn time() -> impl Strategy<Value = Option<Micros>> {
    prop_oneof![
        6 => (1_000_000u64..100_000_000).prop_map(Some),
        1 => (1u64..1000).prop_map(Some),
        1 => (MAX_TIME - 1000..=MAX_TIME).prop_map(Some),
        2 => Just(None),
    ]
}

/// Any times, the whole GPU only, or the smallest instance only.
fn task(sizes: usize) -> impl Strategy<Value = Task> {
    let many = prop::collection::vec(time(), sizes);
    let one = (any::<bool>(), 1u64..50_000_000).prop_map(move |(whole, time)| {
        let mut times = vec![None; sizes];
        times[if whole { sizes - 1 } else { 0 }] = Some(time);
        times
    });
    prop_oneof![4 => many, 1 => one]
        .prop_filter("one size", |times| times.iter().any(Option::is_some))
        .prop_map(|times| Task { times })
}

/// A batch of any model on up to four GPUs, and another to follow it.
fn two_batches() -> impl Strategy<Value = (Problem, Vec<Task>)> {
    let models: Vec<&Model> = Model::all().iter().filter(|m| m.has_mig()).collect();
    (prop::sample::select(models), 1usize..5).prop_flat_map(|(model, gpus)| {
        let batch = || prop::collection::vec(task(Tree::of(model).unwrap().sizes.len()), 0..18);
        (batch(), batch()).prop_map(move |(one, two)| (Problem::new(model, gpus, one).unwrap(), two))
    })
}

/// Replays the plan, which must wait for nothing and keep to its bound.
fn check(problem: &Problem, policy: &Policy) -> Result<(), TestCaseError> {
    let answer = match plan(problem, policy, STEPS_PER_MS) {
        Ok(answer) => answer,
        Err(PolicyError::NoSize(_)) if !matches!(policy, Policy::Tessera | Policy::Far) => return Ok(()),
        Err(e) => return Err(TestCaseError::fail(e.to_string())),
    };
    let replayed = replay(&answer.problem, &answer.schedule).unwrap();
    prop_assert_eq!(replayed.makespan, answer.schedule.makespan());
    if matches!(policy, Policy::Tessera | Policy::Far) {
        prop_assert_eq!(&replayed.earliest, &answer.schedule, "waits for nothing");
    }
    prop_assert!(answer.lower_bound <= replayed.makespan);
    prop_assert_eq!(answer.proven_optimal, answer.lower_bound == replayed.makespan);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_batch_of_any_model_replays((first, then) in two_batches(), arrival in 0u64..200_000_000) {
        for policy in [Policy::Tessera, Policy::Far, Policy::Miso, Policy::FixPartBest] {
            check(&first, &policy)?;
        }
        let one = best(&first, STEPS_PER_MS).schedule;
        prop_assert!(one.makespan() <= far(&first).schedule.makespan());
        let second = first.then(&one, arrival, then);
        for policy in [Policy::Tessera, Policy::Far] {
            check(&second, &policy)?;
            let two = plan(&second, &policy, STEPS_PER_MS).unwrap().schedule;
            prop_assert!(two.runs.iter().all(|r| r.begin >= arrival));
            let (all, schedule) = joined(&[(&first, &one), (&second, &two)]).unwrap();
            prop_assert_eq!(replay(&all, &schedule).unwrap().makespan, schedule.makespan());
        }
    }

    #[test]
    fn the_same_batch_has_the_same_plan((problem, _) in two_batches()) {
        let plans = [0, 1].map(|_| best(&problem.clone(), STEPS_PER_MS));
        prop_assert_eq!(&plans[0].schedule, &plans[1].schedule);
        prop_assert_eq!((plans[0].lower_bound, plans[0].steps), (plans[1].lower_bound, plans[1].steps));
    }
}

/// Where no task fits the slices beside the others, those of all GPUs together are idle for longer than a number holds.
#[test]
fn many_gpus_with_slices_that_fit_nothing() {
    for model in Model::all().iter().filter(|m| m.has_mig()) {
        let sizes = Tree::of(model).unwrap().sizes.len();
        for (gpus, size) in [8, 33, 64].into_iter().flat_map(|gpus| (0..sizes).map(move |size| (gpus, size)))
        {
            let mut times = vec![None; sizes];
            times[size] = Some(1_000_000);
            let problem = Problem::new(model, gpus, vec![Task { times }; 4 * gpus + 1]).unwrap();
            for schedule in [far(&problem).schedule, best(&problem, 0).schedule] {
                let replayed = replay(&problem, &schedule);
                assert_eq!(
                    replayed.map(|r| r.makespan),
                    Ok(schedule.makespan()),
                    "{} {gpus} {size}",
                    model.key
                );
            }
        }
    }
}
