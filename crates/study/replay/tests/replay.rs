//! The replay against what is plainly so: no GPU has two owners, no job starts before it was submitted, and where all that counts is
//! a number of GPUs, every job starts when a simulation second by second says.
#![allow(clippy::unwrap_used, reason = "tests")]

use geometry::{Model, Uid};
use node_state::Fill;
use node_state::{Gpu, MigPolicy, Node, Policy};
use proptest::prelude::*;
use protocol::{Grant, Isolation, Request, ShareOn};
use replay::{Host, Instances, Job, NodeChoice, Ran, Site, replay, stock};
use topology::HardwareGraph;

fn node(key: &str, gpus: usize, mig: MigPolicy) -> Node {
    let model = Model::find(key).unwrap();
    Node::new(vec![Gpu::new(model, mig); gpus], HardwareGraph::uniform(gpus, 25.0))
}

fn site(nodes: Vec<Node>) -> Site {
    Site { nodes, hosts: Vec::new(), choice: NodeChoice::Slurm, policy: Policy::default() }
}

fn job(submit: u64, run_s: u64, request: Request) -> Job {
    Job { submit, run_s, limit_s: None, nodes: 1, cpus: 0, mem_mib: 0, uid: Uid(1000), request, plain: false }
}

fn whole(gpus: u32) -> Request {
    Request { gpus: Some(gpus), ..Request::new(Isolation::Whole) }
}

fn part(isolation: Isolation, mem_mib: u64) -> Request {
    Request { mem_mib: Some(mem_mib), ..Request::new(isolation) }
}

fn run(site: &Site, jobs: &[Job]) -> Vec<Option<Ran>> {
    reserving(1, site, jobs)
}

fn reserving(reserved: usize, site: &Site, jobs: &[Job]) -> Vec<Option<Ran>> {
    let mut done = 0;
    let ran = replay(site, jobs, reserved, &mut |n| done = n);
    assert_eq!(done, jobs.len(), "every job ends or never starts");
    ran
}

fn starts(site: &Site, jobs: &[Job]) -> Vec<Option<u64>> {
    run(site, jobs).iter().map(|ran| ran.as_ref().map(|ran| ran.start)).collect()
}

fn requests() -> impl Strategy<Value = Request> {
    let named = prop_oneof![Just("1g.5gb"), Just("2g.10gb"), Just("3g.20gb"), Just("7g.40gb")];
    prop_oneof![
        3 => (1u32..5).prop_map(whole),
        3 => (500u64..30_000).prop_map(|mib| part(Isolation::Mig(None), mib)),
        2 => named.prop_map(|name| Request::new(Isolation::Mig(Some(name.to_owned())))),
        2 => (500u64..30_000).prop_map(|mib| part(Isolation::Mps, mib)),
        3 => (500u64..45_000).prop_map(|mib| part(Isolation::Auto, mib)),
        1 => (500u64..8_000, 2u32..5).prop_map(|(mib, instances)| Request { instances, ..part(Isolation::Mig(None), mib) }),
    ]
}

fn jobs(requests: impl Strategy<Value = Request>, nodes: usize) -> impl Strategy<Value = Vec<Job>> {
    let limit = prop_oneof![1 => Just(None), 4 => (0u64..40).prop_map(Some)];
    let one = (0u64..60, 0u64..25, limit, 1..=nodes, 0u32..3, requests);
    let job = one.prop_map(|(submit, run_s, limit_s, nodes, uid, request)| Job {
        submit,
        run_s,
        limit_s,
        nodes,
        cpus: 0,
        mem_mib: 0,
        uid: Uid(1000 + uid),
        request,
        plain: false,
    });
    prop::collection::vec(job, 1..40)
}

/// A GPU, the units of it that a grant takes, and the memory of a share and of the device that it is on, MiB.
type Taken = (usize, u16, Option<(u64, u64)>);

fn taken(grant: &Grant, model: &Model) -> Vec<Taken> {
    let all = u16::MAX;
    let mask = |id, start| model.profile_by_id(id).unwrap().at(start).mask();
    match grant {
        Grant::Whole(gpus) => gpus.iter().map(|g| (usize::from(g.0), all, None)).collect(),
        Grant::Mig(specs) => {
            specs.iter().map(|s| (usize::from(s.gpu.0), mask(s.profile, s.start), None)).collect()
        }
        Grant::Mps { on: ShareOn::Gpu(gpu), mem_mib, .. } => {
            vec![(usize::from(gpu.0), all, Some((*mem_mib, model.usable_mib())))]
        }
        Grant::Mps { on: ShareOn::Instance(s), mem_mib, .. } => {
            let room = model.profile_by_id(s.profile).unwrap().memory_mib;
            vec![(usize::from(s.gpu.0), mask(s.profile, s.start), Some((*mem_mib, room)))]
        }
        other => panic!("{other:?}"),
    }
}

/// Whatever has a GPU at one time goes together there: own units do not overlap others', and shares of one device fit its memory.
fn nothing_is_given_twice(site: &Site, jobs: &[Job], ran: &[Option<Ran>]) {
    let running = || jobs.iter().zip(ran).filter_map(|(job, ran)| Some((job, ran.as_ref()?)));
    for (_, at) in running() {
        for (node, place) in site.nodes.iter().enumerate() {
            let model = place.gpus[0].model;
            let now = running().filter(|(job, r)| r.start <= at.start && at.start < r.start + job.run_s);
            let here: Vec<_> = now
                .flat_map(|(_, ran)| ran.parts.iter().filter(|(n, _)| *n == node))
                .flat_map(|(_, grant)| taken(grant, model))
                .collect();
            for (i, (gpu, units, share)) in here.iter().enumerate() {
                for (_, others, beside) in here[i + 1..].iter().filter(|(g, ..)| g == gpu) {
                    let same_device = share.is_some() && beside.is_some() && units == others;
                    assert!(units & others == 0 || same_device, "GPU {gpu} of node {node} at {}", at.start);
                }
                if let Some((_, room)) = share {
                    let sum: u64 = here
                        .iter()
                        .filter(|(g, u, _)| g == gpu && u == units)
                        .filter_map(|(.., share)| share.map(|(mib, _)| mib))
                        .sum();
                    assert!(sum <= *room, "{sum} MiB of {room} on GPU {gpu} of node {node}");
                }
            }
        }
    }
}

fn sound(site: &Site, jobs: &[Job]) {
    for reserved in [0, 1, 3, usize::MAX] {
        sound_with(reserved, site, jobs);
    }
}

fn sound_with(reserved: usize, site: &Site, jobs: &[Job]) {
    let ran = reserving(reserved, site, jobs);
    for (job, ran) in jobs.iter().zip(&ran) {
        let Some(ran) = ran else { continue };
        assert!(ran.start >= job.submit, "{job:?} {ran:?}");
        let mut nodes: Vec<usize> = ran.parts.iter().map(|(node, _)| *node).collect();
        nodes.dedup();
        assert_eq!(nodes.len(), job.nodes, "{job:?} {ran:?}");
    }
    nothing_is_given_twice(site, jobs, &ran);
}

/// When each job starts on one node with so many GPUs, second by second. The first job that waits has a reservation at the time
/// when enough of those that run will have reached their limits; until then only jobs start whose limits end before it.
fn by_the_second(gpus: u32, jobs: &[Job]) -> Vec<Option<u64>> {
    let limit = |job: &Job| job.limit_s.unwrap_or(1 << 40).max(job.run_s);
    let asks = |job: &Job| job.request.gpus.unwrap();
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|j| jobs[*j].submit);
    let mut started: Vec<Option<u64>> = vec![None; jobs.len()];
    for now in 0..5_000 {
        let runs = |started: &[Option<u64>], at: u64, end: fn(&Job) -> u64| -> u32 {
            let of = jobs.iter().zip(started);
            of.filter(|(job, s)| s.is_some_and(|s| s + end(job) > at)).map(|(job, _)| asks(job)).sum()
        };
        // Jobs that take no time at all are over when the next one is looked at, one second's events being one.
        let mut free = gpus - runs(&started, now, |job| job.run_s);
        let mut reserved: Option<u64> = None;
        for j in &order {
            let job = &jobs[*j];
            if job.submit > now || started[*j].is_some() || asks(job) > gpus {
                continue;
            }
            if asks(job) <= free && reserved.is_none_or(|from| now + limit(job) <= from) {
                started[*j] = Some(now);
                free -= asks(job);
            } else if reserved.is_none() {
                let live = |s: &Option<u64>, job: &Job| s.is_some_and(|s| s + job.run_s > now || s == now);
                let mut ends: Vec<(u64, u32)> = jobs
                    .iter()
                    .zip(&started)
                    .filter(|(job, s)| live(s, job))
                    .map(|(job, s)| (s.unwrap() + limit(job), asks(job)))
                    .collect();
                ends.sort_unstable();
                let mut later = free;
                reserved = ends.iter().find_map(|(end, n)| {
                    later += n;
                    (later >= asks(job)).then_some(*end)
                });
            }
        }
    }
    started
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_replay_is_sound(jobs in jobs(requests(), 2), dynamic in any::<bool>()) {
        let mig = if dynamic { MigPolicy::Dynamic } else { MigPolicy::On };
        let tessera = site(vec![node("a100-40gb", 2, mig), node("a100-40gb", 4, MigPolicy::Dynamic)]);
        sound(&tessera, &jobs);
        let plain = stock::site(&tessera.nodes);
        let jobs: Vec<Job> = jobs.iter().map(|job| stock::job(job, &plain)).collect();
        sound(&plain, &jobs);
    }

    #[test]
    fn whole_gpus_of_one_node_start_as_seconds_count(jobs in jobs((1u32..6).prop_map(whole), 1)) {
        let jobs: Vec<Job> = jobs.into_iter().map(|job| Job { run_s: job.run_s.max(1), ..job }).collect();
        let stock = stock::site(&[node("v100-16gb", 4, MigPolicy::Off)]);
        prop_assert_eq!(starts(&stock, &jobs), by_the_second(4, &jobs));
        let several = reserving(5, &stock, &jobs);
        prop_assert_eq!(several, run(&stock, &jobs), "one node is kept for one job");
    }
}

#[test]
fn parts_share_a_gpu_and_whole_gpus_do_not() {
    let tessera = site(vec![node("a100-40gb", 1, MigPolicy::Dynamic)]);
    let jobs = vec![job(0, 10, part(Isolation::Mig(None), 5_000)); 4];
    let ran = run(&tessera, &jobs);
    assert!(ran.iter().all(|ran| ran.as_ref().unwrap().start == 0));
    let plain = stock::site(&tessera.nodes);
    let as_stock: Vec<Job> = jobs.iter().map(|job| stock::job(job, &plain)).collect();
    assert_eq!(starts(&plain, &as_stock), [Some(0), Some(10), Some(20), Some(30)]);
}

#[test]
fn instances_are_used_again() {
    let tessera = site(vec![node("a100-40gb", 1, MigPolicy::On)]);
    let named = |name: &str| Request::new(Isolation::Mig(Some(name.to_owned())));
    let jobs = [job(0, 5, named("2g.10gb")), job(10, 5, named("2g.10gb")), job(20, 5, named("7g.40gb"))];
    let done: Vec<Instances> = run(&tessera, &jobs).iter().map(|r| r.as_ref().unwrap().instances).collect();
    let count = |created, destroyed, reused| Instances { created, destroyed, reused };
    assert_eq!(done, [count(1, 0, 0), count(0, 0, 1), count(1, 1, 0)]);
}

#[test]
fn what_no_empty_site_has_room_for_never_starts() {
    let tessera = site(vec![node("a100-40gb", 2, MigPolicy::Dynamic)]);
    let two_nodes = Job { nodes: 2, ..job(0, 5, whole(1)) };
    let jobs =
        [job(0, 5, whole(3)), two_nodes, job(1, 5, part(Isolation::Auto, 80_000)), job(2, 5, whole(2))];
    assert_eq!(starts(&tessera, &jobs), [None, None, None, Some(2)]);
}

#[test]
fn a_long_job_does_not_pass_one_that_it_would_delay() {
    let stock = stock::site(&[node("v100-16gb", 2, MigPolicy::Off)]);
    let limit = |s, job: Job| Job { limit_s: Some(s), ..job };
    let jobs = [
        limit(10, job(0, 10, whole(1))),
        limit(10, job(1, 10, whole(2))),
        // One GPU is free, and the job of two waits for the other until 10.
        limit(9, job(2, 5, whole(1))),
        limit(8, job(2, 8, whole(1))),
    ];
    assert_eq!(starts(&stock, &jobs), [Some(0), Some(10), Some(20), Some(2)]);
}

#[test]
fn a_long_job_delays_none_of_those_that_nodes_are_kept_for() {
    let stock = stock::site(&vec![node("v100-16gb", 2, MigPolicy::Off); 2]);
    let timed = |submit, run_s, gpus| Job { limit_s: Some(run_s), ..job(submit, run_s, whole(gpus)) };
    // The third gets the first node at 10, the fourth the second node at 12, where the fifth finds a GPU free.
    let jobs = [timed(0, 10, 2), timed(0, 12, 1), timed(1, 10, 2), timed(1, 10, 2), timed(2, 100, 1)];
    let starts = |reserved| -> Vec<u64> {
        reserving(reserved, &stock, &jobs).iter().map(|ran| ran.as_ref().unwrap().start).collect()
    };
    assert_eq!(starts(1), [0, 0, 10, 20, 2]);
    assert_eq!(starts(2), [0, 0, 10, 12, 20]);
}

#[test]
fn stock_gives_the_smallest_instance_of_the_fixed_cut() {
    let model = Model::find("a100-40gb").unwrap();
    let instance = |name: &str, start| (model.profile(name).unwrap().id, geometry::Slice(start));
    let cut = [instance("3g.20gb", 0), instance("2g.10gb", 4), instance("1g.5gb", 6)];
    let fixed = Gpu::kept(model, node_state::Purpose::Static, &cut);
    let gpus = vec![fixed, Gpu::new(model, MigPolicy::Dynamic)];
    let stock = stock::site(&[Node::new(gpus, HardwareGraph::uniform(2, 25.0))]);
    let named = |request: Request| stock::job(&job(0, 1, request), &stock).request.isolation.to_string();
    assert_eq!(named(part(Isolation::Auto, 4_000)), "mig:1g.5gb");
    assert_eq!(named(part(Isolation::Mps, 8_000)), "mig:2g.10gb");
    assert_eq!(named(Request::new(Isolation::Mig(Some("2g.10gb".to_owned())))), "mig:2g.10gb");
    assert_eq!(named(Request::new(Isolation::Mig(Some("4g.20gb".to_owned())))), "whole");
    assert_eq!(named(part(Isolation::Auto, 30_000)), "whole");
    assert_eq!(named(whole(1)), "whole");
}

/// The node of each job.
fn nodes_of(site: &Site, jobs: &[Job]) -> Vec<usize> {
    run(site, jobs).iter().map(|ran| ran.as_ref().unwrap().parts[0].0).collect()
}

#[test]
fn slurm_fills_the_node_with_the_fewest_free_cpus_and_tessera_the_one_that_costs_least() {
    let ranked = |choice| Site {
        nodes: vec![node("a100-40gb", 4, MigPolicy::Dynamic); 3],
        hosts: Vec::new(),
        choice,
        policy: Policy::default(),
    };
    let instance = || Request::new(Isolation::Mig(Some("1g.5gb".to_owned())));
    let with = |cpus, nodes, request| Job { cpus, nodes, ..job(0, 100, request) };
    let jobs = [with(2, 1, instance()), with(8, 1, whole(4)), with(1, 1, instance())];
    for choice in [NodeChoice::Slurm, NodeChoice::Rank(Fill::Pack)] {
        assert_eq!(nodes_of(&ranked(choice), &jobs), [0, 1, 0], "the second node has no GPU left");
    }
    assert_eq!(nodes_of(&ranked(NodeChoice::Rank(Fill::Spread)), &jobs), [0, 1, 2]);
    let apart = [with(1, 1, whole(3)), with(1, 1, instance()), with(9, 1, whole(2)), with(1, 1, instance())];
    assert_eq!(nodes_of(&ranked(NodeChoice::Slurm), &apart), [0, 0, 1, 1], "most CPUs are in use there");
    assert_eq!(nodes_of(&ranked(NodeChoice::Rank(Fill::Pack)), &apart), [0, 0, 1, 0], "a GPU is cut there");
    let pairs = [with(1, 1, whole(1)), with(7, 2, whole(2)), with(1, 1, whole(1))];
    let on: Vec<Vec<usize>> = run(&ranked(NodeChoice::Rank(Fill::Pack)), &pairs)
        .iter()
        .map(|ran| ran.as_ref().unwrap().parts.iter().map(|(node, _)| *node).collect())
        .collect();
    assert_eq!(on, [vec![0], vec![0, 1], vec![0]], "jobs over several nodes go where few CPUs are free");
}

#[test]
fn a_job_goes_where_the_fewest_cpus_are_free_and_never_onto_a_node_that_is_too_small() {
    let hosts = [64, 8, 4].map(|cpus| Host { cpus, mem_mib: 1000 }).to_vec();
    let site = Site { hosts, ..site(vec![node("a100-40gb", 4, MigPolicy::Off); 3]) };
    let with = |cpus, mem_mib| Job { cpus, mem_mib, ..job(0, 100, whole(1)) };
    assert_eq!(nodes_of(&site, &[with(1, 1), with(8, 1), with(3, 1000), with(9, 1)]), [2, 1, 0, 0]);
    assert_eq!(run(&site, &[with(65, 1), with(1, 1001)]), [None, None], "no node is so large");
}

proptest! {
    /// CPUs and memory limit what starts as whole GPUs do.
    #[test]
    fn jobs_start_by_cpus_or_memory_as_they_would_by_gpus(
        by_gpus in jobs((1u32..=4).prop_map(whole), 1),
        by_memory in any::<bool>(),
    ) {
        let site = site(vec![node("a100-40gb", 4, MigPolicy::Off)]);
        let need = |job: &Job| if by_memory { (1, job.request.gpus.unwrap().into()) } else { (job.request.gpus.unwrap().into(), 1) };
        let by_host: Vec<Job> = by_gpus
            .iter()
            .map(|job| {
                let (cpus, mem_mib) = need(job);
                Job { cpus, mem_mib, request: whole(1), ..job.clone() }
            })
            .collect();
        let host = Host { cpus: 4, mem_mib: 4 };
        let starts = |ran: Vec<Option<Ran>>| ran.into_iter().map(|ran| ran.map(|ran| ran.start)).collect::<Vec<_>>();
        let limited = Site { hosts: vec![host], ..site.clone() };
        prop_assert_eq!(starts(run(&limited, &by_host)), starts(run(&site, &by_gpus)));
    }

    /// Whichever nodes jobs get, no GPU is given twice and no job starts early.
    #[test]
    fn the_choice_of_nodes_keeps_everything_sound(jobs in jobs(requests(), 3), spread in any::<bool>()) {
        let fill = if spread { Fill::Spread } else { Fill::Pack };
        let nodes = vec![node("a100-40gb", 4, MigPolicy::Dynamic); 3];
        sound(&Site { nodes, hosts: Vec::new(), choice: NodeChoice::Rank(fill), policy: Policy::default() }, &jobs);
    }
}
