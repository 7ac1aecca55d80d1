use std::collections::BTreeSet;

use super::*;
use crate::commands::power::{calibrated, calibrated_for_three};
use audit::{Grouped, audit_groups};
use power::Memory;
use power_study::{State, fit_best};
use proptest::prelude::*;

const APPS: [&str; 8] = ["hgemm", "stream", "lud", "igemm4", "kmeans", "dgemm", "needle", "gaussian"];

/// Counters of the simulated A100, and the model fitted to its runs: made once.
fn world() -> &'static (Arc<power::CounterTable>, Arc<power_study::Model>) {
    static WORLD: std::sync::OnceLock<(Arc<power::CounterTable>, Arc<power_study::Model>)> =
        std::sync::OnceLock::new();
    WORLD.get_or_init(|| {
        let (counters, runs) = calibrated();
        let model = fit_best(Model::find("a100-40gb").unwrap(), &counters, &runs).unwrap();
        (Arc::new(counters), Arc::new(model))
    })
}

fn fitted() -> &'static power_study::Model {
    &world().1
}

/// A model that was also fitted to runs of three applications, for the same GPU.
fn world_of_three() -> &'static Arc<power_study::Model> {
    static WORLD: std::sync::OnceLock<Arc<power_study::Model>> = std::sync::OnceLock::new();
    WORLD.get_or_init(|| {
        let (counters, runs) = calibrated_for_three();
        Arc::new(fit_best(Model::find("a100-40gb").unwrap(), &counters, &runs).unwrap())
    })
}

fn board_of_three(index: u16, free_at: Micros) -> Board {
    Board { power: Arc::clone(world_of_three()), ..board(index, free_at) }
}

fn site(shared_memory: node_state::SharedMemory) -> Power {
    Power { shared_memory, counters: Some(Arc::clone(&world().0)), ..Power::default() }
}

fn policy(objective: Objective, alpha: f64, guard: bool) -> PowerPolicy {
    PowerPolicy { objective, alpha, guard }
}

fn board(index: u16, free_at: Micros) -> Board {
    Board {
        node: "n1".to_owned(),
        index: GpuIndex(index),
        model: Model::find("a100-40gb").unwrap(),
        power: Arc::clone(&world().1),
        cap_w: Some(250),
        partitions: vec!["gpu".to_owned()],
        free_at: Some(free_at),
        running: Vec::new(),
    }
}

const UNLIMITED: TimeLimit = TimeLimit { own_s: None, most_s: None, takes_s: None };

fn job(job: u32, user: &str, app: &str) -> Waiting {
    Waiting {
        job,
        user: user.to_owned(),
        app: app.to_owned(),
        own: Vec::new(),
        mem_mib: Some(9000),
        partitions: vec!["gpu".to_owned()],
        models: vec![Model::find("a100-40gb").unwrap()],
        elsewhere: false,
        policy: policy(Objective::Efficiency, 0.2, false),
        limit: UNLIMITED,
    }
}

fn run(waiting: &[Waiting], boards: &[Board]) -> Vec<String> {
    let shown = |p: &Paired| {
        let Sharing { cap_w, with, alone, .. } = &p.sharing;
        format!("{} {} {}@{} {cap_w:?} {with:?} {alone:?}", p.job, p.size, p.place.node, p.place.start)
    };
    decide(waiting, boards, &site(node_state::SharedMemory::SameUser)).iter().map(shown).collect()
}

/// The names of all that a paper's choice of one pair says.
fn chosen(apps: [&str; 2], problem: power_study::Problem) -> power_study::Candidate {
    let apps = apps.map(str::to_owned).to_vec();
    let features = power_study::features(fitted(), &world().0, &apps).unwrap();
    let question =
        power_study::Question { apps: &apps, features: &features, problem, alpha: 0.2, guard: false };
    power_study::choose(fitted(), &question).unwrap().chosen.unwrap()
}

#[test]
fn two_jobs_get_the_state_and_the_cap_that_the_model_chooses() {
    let best = chosen(["igemm4", "stream"], power_study::Problem::Efficiency);
    let plans = decide(
        &[job(7, "alice", "igemm4"), job(8, "alice", "stream")],
        &[board(3, 0)],
        &site(node_state::SharedMemory::SameUser),
    );
    assert_eq!(plans.len(), 2, "{plans:?}");
    for (plan, part) in plans.iter().zip(best.state.parts()) {
        let size = match part.memory {
            Memory::Shared => format!("{}c.7g.40gb", part.slices),
            Memory::Private => format!("{}g.20gb", part.slices),
        };
        assert_eq!(
            (plan.size.as_str(), plan.sharing.cap_w.map(u32::from)),
            (size.as_str(), Some(best.cap.watts()))
        );
        assert_eq!(plan.place.start.gpu, GpuIndex(3));
    }
    assert_eq!((&plans[0].sharing.with[..], &plans[1].sharing.with[..]), (&[8][..], &[7][..]));
    // Problem 1 has the node's cap.
    let mut jobs = [job(7, "alice", "igemm4"), job(8, "alice", "stream")];
    jobs.iter_mut().for_each(|j| j.policy.objective = Objective::Throughput);
    let plans = decide(&jobs, &[board(3, 0)], &site(node_state::SharedMemory::SameUser));
    assert!(plans.len() == 2 && plans.iter().all(|p| p.sharing.cap_w == Some(250)), "{plans:?}");
}

#[test]
fn who_cannot_share_gets_a_full_size_instance_alone() {
    let unknown = job(1, "alice", "nobody-knows");
    let silent = Waiting { mem_mib: None, ..job(2, "alice", "stream") };
    let plans = run(&[unknown, silent, job(3, "alice", "lud")], &[board(0, 0), board(1, 5), board(2, 9)]);
    assert_eq!(
        plans,
        [
            "1 7g.40gb n1@0@0 None [] Some(Unprofiled)",
            "2 7g.40gb n1@1@0 None [] Some(NoMemory)",
            "3 7g.40gb n1@2@0 None [] Some(NoPartner)",
        ]
    );
}

#[test]
fn no_job_that_could_run_elsewhere_is_bound_to_a_gpu_that_is_busy_for_long() {
    let planned = |elsewhere: [bool; 2], free_at| {
        let jobs = [(1, "igemm4"), (2, "stream")].map(|(id, app)| job(id, "alice", app));
        let jobs = std::iter::zip(jobs, elsewhere).map(|(job, elsewhere)| Waiting { elsewhere, ..job });
        run(&jobs.collect::<Vec<_>>(), &[Board { free_at, ..board(0, 0) }]).len()
    };
    let times = [Some(0), Some(SOON - 1), Some(SOON), None];
    assert_eq!(times.map(|at| planned([true; 2], at)), [2, 2, 0, 0]);
    // Where there is nothing else, a busy GPU is the only one to plan.
    assert_eq!(times.map(|at| planned([false; 2], at)), [2; 4]);
    assert_eq!(planned([false, true], None), 1, "the second is no partner there");
}

#[test]
fn a_job_without_a_size_on_a_gpu_leaves_it_to_others() {
    let too_large = Waiting { models: vec![Model::find("a100-80gb").unwrap()], ..job(1, "alice", "lud") };
    assert_eq!(
        run(&[too_large, job(2, "alice", "lud")], &[board(0, 0)]),
        ["2 7g.40gb n1@0@0 None [] Some(NoPartner)"]
    );
}

#[test]
fn strangers_share_no_memory() {
    let jobs = [job(1, "alice", "hgemm"), job(2, "bob", "needle")];
    let of = |shared| {
        let plans = decide(&jobs, &[board(0, 0)], &site(shared));
        plans.iter().map(|p| p.size.clone()).collect::<Vec<_>>()
    };
    let same = of(node_state::SharedMemory::SameUser);
    assert!(same.iter().all(|size| !size.contains('c')), "{same:?}");
    assert_eq!(same.len(), 2, "parts with memory of their own");
}

#[test]
fn jobs_whose_memory_does_not_fit_share_no_gpu() {
    let large = |id, app| Waiting { mem_mib: Some(30_000), ..job(id, "alice", app) };
    assert_eq!(run(&[large(1, "igemm4"), large(2, "stream")], &[board(0, 0)]).len(), 1, "alone, one GPU");
}

#[test]
fn a_limit_that_could_end_a_job_keeps_it_from_sharing() {
    let limited = |id, app, most_s| Waiting {
        limit: TimeLimit { own_s: Some(600), most_s, takes_s: None },
        ..job(id, "alice", app)
    };
    let pair = |most_s| [limited(1, "igemm4", most_s), limited(2, "stream", most_s)];
    assert_eq!(run(&pair(Some(600)), &[board(0, 0)]), ["1 7g.40gb n1@0@0 None [] Some(NoPartner)"]);
    let plans = decide(&pair(None), &[board(0, 0)], &site(node_state::SharedMemory::SameUser));
    for plan in &plans {
        let needs = 60_000 / u64::from(plan.sharing.low.unwrap() + 1);
        let has = plan.limit_s.unwrap();
        assert!(has >= needs && has > 600, "{plan:?}");
    }
}

fn running(job: u32, app: &str, part: &str, start: u8, cap_w: Option<u16>, low: Option<u8>) -> Running {
    Running {
        job,
        user: "alice".to_owned(),
        app: app.to_owned(),
        own: Vec::new(),
        mem_mib: 9000,
        policy: policy(Objective::Efficiency, 0.2, false),
        part: part.parse().unwrap(),
        start: Slice(start),
        cap_w,
        low,
        has_limit: true,
    }
}

#[test]
fn a_running_job_keeps_its_part_its_cap_and_its_promise() {
    let with = |low, cap_w| {
        let running = vec![running(1, "hgemm", "4c", 0, cap_w, low)];
        run(&[job(2, "alice", "needle")], &[Board { running, free_at: Some(60), ..board(0, 0) }])
    };
    let caps: BTreeSet<String> = [150, 190, 250]
        .map(|cap_w| {
            let plans = with(Some(1), Some(cap_w));
            assert!(plans[0].starts_with("2 3c.7g.40gb n1@0@0 ") && plans[0].contains(" [1] "), "{plans:?}");
            let cap: u16 =
                plans[0].split("Some(").nth(1).unwrap().split(')').next().unwrap().parse().unwrap();
            assert!(cap >= cap_w, "{plans:?}");
            plans[0].clone()
        })
        .into();
    assert!(!caps.is_empty());
    assert_eq!(with(Some(100), Some(190)), ["2 7g.40gb n1@0@0 None [] Some(NoPartner)"], "more was promised");
    assert_eq!(with(None, Some(190)), ["2 7g.40gb n1@0@0 None [] Some(NoPartner)"], "nothing was agreed");
    assert!(with(Some(1), None)[0].contains(" None [1] "), "no cap where a neighbour has none");
}

/// Jobs of a strict partition share with nobody who would leave them less, whoever opens the GPU.
#[test]
fn the_highest_alpha_of_a_group_counts() {
    let pair = |first: f64, second: f64| {
        let mut jobs = [job(1, "alice", "igemm4"), job(2, "alice", "stream")];
        jobs[0].policy.alpha = first;
        jobs[1].policy.alpha = second;
        let plans = decide(&jobs, &[board(0, 0)], &site(node_state::SharedMemory::SameUser));
        plans.iter().map(|p| p.sharing.speed).collect::<Vec<_>>()
    };
    assert_eq!(pair(0.2, 0.2).len(), 2);
    for (first, second) in [(0.9, 0.2), (0.2, 0.9)] {
        assert_eq!(pair(first, second), [None], "alone");
    }
    let kept: Vec<u8> = pair(0.2, 0.5).into_iter().flatten().collect();
    assert!(kept.is_empty() || kept.iter().all(|percent| *percent >= 50), "{kept:?}");
}

/// Every order of some parts.
fn orders(parts: &[&'static str]) -> BTreeSet<Vec<&'static str>> {
    if parts.is_empty() {
        return BTreeSet::from([Vec::new()]);
    }
    let with = |first: usize| {
        let rest = [&parts[..first], &parts[first + 1..]].concat();
        orders(&rest).into_iter().map(move |rest| [vec![parts[first]], rest].concat())
    };
    (0..parts.len()).flat_map(with).collect()
}

/// Memory of a plain instance of an A100 with 40 GB, MiB, as NVML has it.
fn memory_of(slices: u8) -> u64 {
    match slices {
        1 => 4864,
        2 => 9856,
        3 | 4 => 19_968,
        _ => 40_192,
    }
}

/// The weighted speedup of jobs on a free board, found without the crate's own choice.
fn plainly(jobs: &[&Waiting], model: &power_study::Model, shared: node_state::SharedMemory) -> Option<f64> {
    let apps: Vec<String> = jobs.iter().map(|j| j.app.clone()).collect();
    let features = power_study::features(model, &world().0, &apps).ok()?;
    let memory: Vec<u64> = jobs.iter().map(|j| j.mem_mib).collect::<Option<_>>()?;
    let alpha = jobs.iter().map(|j| j.policy.alpha).fold(0.0, f64::max);
    let is_efficient = jobs[0].policy.objective == Objective::Efficiency;
    let mut best: Option<(f64, f64, f64)> = None;
    let kinds: [&[&'static str]; 6] = [
        &["4c", "3c"],
        &["4g", "3g"],
        &["3c", "2c", "2c"],
        &["4c", "2c", "1c"],
        &["3g", "2g", "2g"],
        &["4g", "2g", "1g"],
    ];
    for parts in kinds.iter().filter(|parts| parts.len() == jobs.len()).flat_map(|parts| orders(parts)) {
        let state: State = parts.join("+").parse().unwrap();
        let is_shared = state.parts()[0].memory == Memory::Shared;
        let strangers = jobs.iter().any(|job| job.user != jobs[0].user);
        let forbidden = match shared {
            node_state::SharedMemory::Never => true,
            node_state::SharedMemory::SameUser => strangers,
            node_state::SharedMemory::Any => false,
        };
        let fits = || memory.iter().zip(state.parts()).all(|(mem, part)| *mem <= memory_of(part.slices));
        let too_large = if is_shared { memory.iter().sum::<u64>() > memory_of(7) } else { !fits() };
        if too_large || (is_shared && forbidden) {
            continue;
        }
        for cap in model.caps().iter().filter(|c| is_efficient || c.watts() == 250) {
            // A model of two has no state of three.
            let Some(speeds) = model.predict(&state, *cap, &features) else { continue };
            let least = speeds.iter().copied().fold(f64::INFINITY, f64::min);
            if least <= alpha {
                continue;
            }
            let sum: f64 = speeds.iter().sum();
            let goal = if is_efficient { sum / f64::from(cap.watts()) } else { sum };
            if best.is_none_or(|(known, fairness, _)| {
                goal.total_cmp(&known).then(least.total_cmp(&fairness)).is_gt()
            }) {
                best = Some((goal, least, sum));
            }
        }
    }
    best.map(|(_, _, sum)| sum)
}

#[test]
fn a_third_job_joins_as_long_as_all_gain() {
    let apps = ["needle", "lud", "gaussian", "kmeans"];
    let small = |(id, app)| Waiting { mem_mib: Some(4000), ..job(id, "alice", app) };
    let jobs: Vec<Waiting> = (1..).zip(apps).map(small).collect();
    let plans = decide(&jobs, &[board_of_three(2, 0)], &site(node_state::SharedMemory::SameUser));
    let who: BTreeSet<u32> = plans.iter().map(|p| p.job).collect();
    assert!(plans.len() == 3 && who.contains(&1), "{plans:?}");
    for plan in &plans {
        let others: BTreeSet<u32> = plan.sharing.with.iter().copied().collect();
        assert_eq!(others, &who - &BTreeSet::from([plan.job]));
        assert_eq!((plan.sharing.cap_w, plan.place.start.gpu), (plans[0].sharing.cap_w, GpuIndex(2)));
    }
    // Two of three run, the third has ended or never came: what is left of the GPU goes to another.
    let state: State = plans.iter().map(|p| &p.size[..2]).collect::<Vec<_>>().join("+").parse().unwrap();
    let lies = parts::lay_out(Model::find("a100-40gb").unwrap(), state.parts(), &[None; 3]).unwrap();
    let is_shared = lies[0].size.contains('c');
    let mut twos = if plans.iter().any(|p| p.size.starts_with('4')) { vec![4] } else { vec![2, 0] };
    let starts: Vec<u8> = state
        .parts()
        .iter()
        .zip(&lies)
        .map(|(part, lies)| match part.slices {
            _ if !is_shared => lies.start.0,
            4 => 0,
            3 => 4,
            2 => twos.pop().unwrap(),
            _ => 6,
        })
        .collect();
    for gone in 0..3_usize {
        let here = |at: usize| {
            let (plan, part) = (&plans[at], state.parts()[at]);
            let app = apps[usize::try_from(plan.job).unwrap() - 1];
            running(plan.job, app, &part.to_string(), starts[at], plan.sharing.cap_w, plan.sharing.low)
        };
        let two = (0..3).filter(|at| *at != gone).map(here).map(|r| Running { mem_mib: 4000, ..r }).collect();
        let board = Board { running: two, ..board_of_three(2, 60) };
        let app = apps[usize::try_from(plans[gone].job).unwrap() - 1];
        let next = Waiting { mem_mib: Some(4000), ..job(9, "alice", app) };
        let again = decide(&[next], &[board], &site(node_state::SharedMemory::SameUser));
        assert_eq!(again.len(), 1, "{gone}: {again:?}");
        assert_eq!((&again[0].size, again[0].sharing.with.len()), (&plans[gone].size, 2), "{gone}");
        assert!(again[0].sharing.cap_w >= plans[0].sharing.cap_w);
    }
}

fn any_job() -> impl Strategy<Value = Waiting> {
    let mem = prop_oneof![1 => Just(None), 8 => (1_u64..40_000).prop_map(Some)];
    let app = prop_oneof![9 => prop::sample::select(&APPS[..]), 1 => Just("unknown")];
    (
        app,
        prop::sample::select(vec!["alice", "bob"]),
        mem,
        prop::sample::select(vec![0.2, 0.42]),
        any::<bool>(),
    )
        .prop_map(|(app, user, mem_mib, alpha, efficiency)| {
            let objective = if efficiency { Objective::Efficiency } else { Objective::Throughput };
            Waiting { mem_mib, policy: policy(objective, alpha, false), ..job(0, user, app) }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn nobody_would_go_better_together(
        mut jobs in prop::collection::vec(any_job(), 1..40),
        gpus in 1..6_u16,
        shared in prop::sample::select(vec![
            node_state::SharedMemory::Never, node_state::SharedMemory::SameUser, node_state::SharedMemory::Any,
        ]),
        three in any::<bool>(),
    ) {
        for (id, job) in (0..).zip(&mut jobs) {
            job.job = id;
        }
        let make = if three { board_of_three } else { board };
        let model = if three { world_of_three() } else { fitted() };
        let boards: Vec<Board> = (0..gpus).map(|g| make(g, 0)).collect();
        let plans = decide(&jobs, &boards, &site(shared));
        let groups: Vec<Grouped> = (0..gpus)
            .filter_map(|g| {
                let mut here = plans.iter().filter(|p| p.place.start.gpu == GpuIndex(g)).map(|p| usize::try_from(p.job).unwrap());
                Some(Grouped { first: Some(here.next()?), partners: here.collect() })
            })
            .collect();
        prop_assert_eq!(groups.len(), usize::from(gpus).min(groups.len().max(1)));
        let speedup = |_: usize, members: &[usize]| {
            let members: Vec<&Waiting> = members.iter().map(|at| &jobs[*at]).collect();
            plainly(&members, model, shared)
        };
        let findings = audit_groups(jobs.len(), &groups, NEXT, |_| 1.0, speedup);
        prop_assert!(findings.is_empty(), "{findings:?}");
        // Nobody is planned twice, and a GPU is only left over if nobody waits.
        let ids: BTreeSet<u32> = plans.iter().map(|p| p.job).collect();
        prop_assert_eq!(ids.len(), plans.len());
        prop_assert!(groups.len() == usize::from(gpus) || ids.len() == jobs.len());
        prop_assert!(plans.iter().all(|p| p.sharing.with.len() <= 1 + usize::from(three)));
        for plan in &plans {
            prop_assert_eq!(plan.sharing.alone.is_some(), plan.sharing.with.is_empty());
        }
    }
}
