//! Planners at the ends of what they accept: no task, one task, budgets of nothing, the longest times, very many tasks.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    reason = "tests"
)]

use far::{
    Answer, Blocked, Busy, Costs, Held, MAX_COST, MAX_TASKS, MAX_TIME, MAX_TOTAL, Micros, Policy,
    PolicyError, Problem, ProblemError, STEPS_PER_MS, Task, best, far, plan, replay,
};
use geometry::Model;
use rustix::time::{ClockId, clock_gettime};

fn a100(gpus: usize, tasks: Vec<Task>) -> Result<Problem, ProblemError> {
    Problem::new(Model::find("a100-40gb").unwrap(), gpus, tasks)
}

fn task(times: [Option<Micros>; 5]) -> Task {
    Task { times: times.to_vec() }
}

fn everywhere(time: Micros) -> Task {
    task([Some(time); 5])
}

fn policies() -> Vec<Policy> {
    ["tessera", "far", "miso", "fixpart-best", "fixpart:7", "fixpart:4,3"]
        .map(|p| p.parse().unwrap())
        .to_vec()
}

/// Plans with every policy and replays each plan.
fn all(problem: &Problem, budget: u64) -> Vec<Answer> {
    let answers = policies().into_iter().map(|p| plan(problem, &p, budget).unwrap());
    answers
        .inspect(|a| assert_eq!(replay(&a.problem, &a.schedule).unwrap().makespan, a.schedule.makespan()))
        .collect()
}

#[test]
fn no_task_is_a_plan_of_nothing() {
    for answer in all(&a100(2, Vec::new()).unwrap(), 100) {
        assert_eq!((answer.schedule.makespan(), answer.lower_bound, answer.proven_optimal), (0, 0, true));
        assert!(answer.schedule.ops.is_empty());
    }
}

#[test]
fn one_task_of_one_size_takes_that_size() {
    for class in 0..5 {
        let mut times = [None; 5];
        times[class] = Some(1);
        let problem = a100(1, vec![task(times)]).unwrap();
        for policy in [Policy::Tessera, Policy::Far] {
            let answer = plan(&problem, &policy, 100).unwrap();
            let run = answer.schedule.runs[0];
            assert_eq!(problem.tree.nodes[run.node].class, class);
            assert_eq!(replay(&problem, &answer.schedule).unwrap().makespan, problem.costs.create[class] + 1);
        }
    }
}

#[test]
fn a_policy_without_the_size_says_so() {
    let only_3g = a100(1, vec![task([None, None, Some(5), None, None])]).unwrap();
    let whole = plan(&only_3g, &Policy::FixPart(vec![7]), 0);
    assert_eq!(whole.unwrap_err(), PolicyError::NoSize(Policy::FixPart(vec![7])));
    assert!(plan(&only_3g, &Policy::FixPart(vec![7, 7]), 0).is_err());
    assert!(plan(&only_3g, &Policy::FixPartBest, 0).is_ok());
    assert!(plan(&only_3g, &Policy::Miso, 0).is_ok());
}

#[test]
fn a_budget_of_nothing_is_still_a_plan() {
    let tasks: Vec<Task> = (1..40).map(|k| everywhere(k * 1_000_000)).collect();
    for gpus in [1, 5] {
        let problem = a100(gpus, tasks.clone()).unwrap();
        for budget in [0, 1, 29, 1000] {
            let made = best(&problem, budget);
            assert!(replay(&problem, &made.schedule).unwrap().makespan <= far(&problem).schedule.makespan());
            assert!(made.steps <= budget);
        }
        let rest = problem.then(&far(&problem).schedule, 0, tasks.clone());
        assert!(replay(&rest, &best(&rest, 0).schedule).is_ok());
    }
}

#[test]
fn the_longest_times_and_dearest_reconfigurations_fit() {
    let longest = usize::try_from(MAX_TOTAL / MAX_TIME).unwrap();
    let mut problem = a100(3, vec![everywhere(MAX_TIME); longest]).unwrap();
    problem.costs = Costs { create: vec![MAX_COST; 5], destroy: vec![MAX_COST; 5] };
    problem.gpus[0].held = vec![Held { node: 0, until: Some(MAX_TOTAL) }];
    problem.gpus[1].blocked = vec![Blocked { mask: 0xff, until: Some(MAX_TOTAL) }];
    problem.gpus[2].blocked = problem.gpus[1].blocked.clone();
    problem.busy = vec![Busy { lane: 0, begin: 0, end: MAX_TOTAL }];
    for policy in [Policy::Tessera, Policy::Far] {
        let answer = plan(&problem, &policy, 2000).unwrap();
        let makespan = replay(&problem, &answer.schedule).unwrap().makespan;
        assert!(makespan >= MAX_TOTAL && answer.lower_bound <= makespan);
    }
}

#[test]
fn one_more_than_the_most_is_refused() {
    let longest = usize::try_from(MAX_TOTAL / MAX_TIME).unwrap();
    assert_eq!(a100(1, vec![everywhere(MAX_TIME); longest + 1]).unwrap_err(), ProblemError::Total);
    assert_eq!(a100(1, vec![everywhere(MAX_TIME + 1)]).unwrap_err(), ProblemError::Time { task: 0 });
    assert_eq!(a100(1, vec![everywhere(1), everywhere(0)]).unwrap_err(), ProblemError::Time { task: 1 });
    assert_eq!(a100(1, vec![everywhere(1), task([None; 5])]).unwrap_err(), ProblemError::Time { task: 1 });
    assert_eq!(a100(1, vec![everywhere(1); MAX_TASKS + 1]).unwrap_err(), ProblemError::Many);
    assert_eq!(a100(0, vec![everywhere(1)]).unwrap_err(), ProblemError::NoGpu);
    let short = Task { times: vec![Some(1); 4] };
    assert_eq!(a100(1, vec![short]).unwrap_err(), ProblemError::Sizes { task: 0, found: 4, expected: 5 });
    let problem = a100(1, vec![everywhere(1)]).unwrap();
    let with = |change: &dyn Fn(&mut Problem)| {
        let mut p = problem.clone();
        change(&mut p);
        plan(&p, &Policy::Far, 0).map(|_| ()).unwrap_err()
    };
    let costs = PolicyError::Problem(ProblemError::Costs);
    assert_eq!(with(&|p| p.costs.create[0] = MAX_COST + 1), costs);
    assert_eq!(with(&|p| p.costs.destroy.truncate(4)), costs);
    let instant = PolicyError::Problem(ProblemError::Instant);
    assert_eq!(with(&|p| p.busy = vec![Busy { lane: 0, begin: 2, end: 1 }]), instant);
    assert_eq!(with(&|p| p.gpus[0].held = vec![Held { node: 3, until: Some(MAX_TOTAL + 1) }]), instant);
    let held = PolicyError::Problem(ProblemError::Held { gpu: 0 });
    assert_eq!(with(&|p| p.gpus[0].held = vec![Held { node: 99, until: None }]), held);
    assert_eq!(
        with(&|p| p.gpus[0].held = vec![Held { node: 0, until: None }, Held { node: 5, until: None }]),
        held
    );
    let nowhere = PolicyError::Problem(ProblemError::Nowhere { task: 0 });
    assert_eq!(with(&|p| p.gpus[0].held = vec![Held { node: 0, until: None }]), nowhere);
}

#[test]
fn policies_for_empty_gpus_refuse_others() {
    let mut problem = a100(1, vec![everywhere(5)]).unwrap();
    problem.gpus[0].held = vec![Held { node: 4, until: Some(7) }];
    for policy in policies() {
        let any_state = matches!(policy, Policy::Tessera | Policy::Far);
        match plan(&problem, &policy, 100) {
            Ok(answer) => assert!(any_state && replay(&problem, &answer.schedule).is_ok()),
            Err(e) => assert!(!any_state && e == PolicyError::NotEmpty(policy)),
        }
    }
}

#[test]
fn a_hundred_thousand_tasks_are_planned() {
    let time = |k: u64, class: u64| Some(1 + (k * 7919 + class * 104_729) % 100_000_000);
    let tasks: Vec<Task> =
        (0..100_000).map(|k| task(std::array::from_fn(|class| time(k, class as u64)))).collect();
    let problem = a100(4, tasks).unwrap();
    let begin = clock_gettime(ClockId::ThreadCPUTime);
    let quick = far(&problem).schedule;
    let ours = best(&problem, 50 * STEPS_PER_MS).schedule;
    // The processor's time: the machine may have something else to do.
    let took = clock_gettime(ClockId::ThreadCPUTime) - begin;
    let (quick, ours) =
        (replay(&problem, &quick).unwrap().makespan, replay(&problem, &ours).unwrap().makespan);
    assert!(ours <= quick && quick < problem.baseline() * 101 / 100);
    // A second or so on an ordinary machine; what must not come back is work that grows with the square.
    assert!(took.tv_sec < 60, "{took:?}");
    println!("{took:?}");
}
