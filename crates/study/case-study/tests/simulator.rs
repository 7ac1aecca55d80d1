//! Small runs whose every number can be worked out by hand.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use case_study::audit::audit;
use case_study::devices::V100;
use case_study::policy;
use case_study::sim::{Job, JobError, Outcome, Phase, Setup, Stuck, simulate};
use case_study::{Node, RunEvent};
use proptest::prelude::*;
use task_sched::{Bytes, Device, DeviceId, Event as Sched, Need, Order, Pool, WorkerId};

const GB: u64 = 1_000_000_000;

fn gpu(seconds: f64, gb: u64, demand: f64) -> Phase {
    Phase::Gpu { seconds, need: Need::new(Bytes(gb * GB), 100, 256).unwrap(), demand }
}

fn job(id: u64, arrival: f64, phases: &[Phase]) -> Job {
    let mem = |phase: &Phase| match phase {
        Phase::Gpu { need, .. } => need.mem(),
        Phase::Host(_) => Bytes(0),
    };
    let mem = phases.iter().map(mem).max().unwrap_or_default();
    Job { id: WorkerId(id), name: String::new(), arrival, isolated: false, mem, phases: phases.to_vec() }
}

fn run(devices: usize, workers: usize, policy: &str, jobs: &[Job]) -> Result<Outcome, Stuck> {
    let setup = Setup { pool: Pool::new(&vec![V100; devices]), workers, order: Order::Arrival };
    simulate(&setup, jobs, policy::by_name(policy).unwrap())
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-6, "{found}, expected {expected}");
}

#[test]
fn tasks_slow_each_other_by_their_demand() {
    // Both run from 0 at 1 / 1.5. The short one ends at 3; the long one has done 2 of 6 seconds and runs alone to 7.
    let jobs = [job(1, 0.0, &[gpu(2.0, 1, 0.5)]), job(2, 0.0, &[gpu(6.0, 1, 0.5)])];
    let run = run(1, 2, "tessera", &jobs).unwrap();
    close(run.jobs[0].end, 3.0);
    close(run.jobs[1].end, 7.0);
    close(run.summary.makespan, 7.0);
    close(run.summary.throughput, 2.0 / 7.0);
    close(run.summary.turnaround_mean, 5.0);
    close(run.summary.slowdown_mean, (0.5 + 1.0 / 6.0) / 2.0);
    close(run.summary.mem_util, (2.0 * 3.0 + 4.0) * GB as f64 / (7.0 * V100.mem.0 as f64));
    close(run.summary.busy_util, (1.0 * 3.0 + 0.5 * 4.0) / 7.0);
}

#[test]
fn a_task_waits_for_memory_and_its_wait_is_counted() {
    let jobs = [job(1, 0.0, &[gpu(4.0, 9, 0.1)]), job(2, 1.0, &[Phase::Host(1.0), gpu(1.0, 9, 0.1)])];
    let run = run(1, 2, "alg3", &jobs).unwrap();
    close(run.jobs[1].end, 5.0);
    close(run.summary.wait_max, 2.0);
    close(run.summary.wait_mean, 1.0);
    close(run.summary.turnaround_mean, 4.0);
}

#[test]
fn crashed_and_refused_jobs_count_nowhere_else() {
    let fits = [gpu(4.0, 9, 0.0)];
    let jobs = [job(1, 0.0, &fits), job(2, 0.0, &[gpu(1.0, 1, 0.0), gpu(1.0, 9, 0.0)]), job(3, 0.0, &fits)];
    let crashing = run(1, 3, "cg", &jobs).unwrap();
    assert_eq!((crashing.summary.jobs, crashing.summary.crashed), (3, 2));
    close(crashing.summary.throughput, 0.25);
    close(crashing.summary.turnaround_mean, 4.0);
    let refused = run(1, 3, "tessera", &[job(1, 0.0, &fits), job(2, 0.0, &[gpu(1.0, 20, 0.0)])]).unwrap();
    assert_eq!(refused.summary.crashed, 1);
    let why = refused.events.iter().find_map(|event| match event {
        RunEvent::Sched(Sched::Refuse { why, .. }) => Some(why.as_str()),
        _ => None,
    });
    assert_eq!(why, Some("the task needs 20000000000 bytes; the largest device has 14680064000 bytes"));
}

#[test]
fn isolated_jobs_start_first_and_share_with_nobody() {
    let mut jobs: Vec<Job> = (1..=4).map(|id| job(id, 0.0, &[gpu(2.0, 1, 0.0)])).collect();
    jobs[3].isolated = true;
    let run = run(1, 4, "tessera", &jobs).unwrap();
    close(run.jobs[3].end, 2.0);
    jobs[..3].iter().zip(&run.jobs).for_each(|(_, times)| close(times.end, 4.0));
}

#[test]
fn what_cannot_run_is_said() {
    let error = |jobs: &[Job], devices, workers| run(devices, workers, "alg3", jobs).unwrap_err().to_string();
    let fine = job(1, 0.0, &[gpu(1.0, 1, 0.0)]);
    assert_eq!(
        error(std::slice::from_ref(&fine), 1, 0),
        "alg3 leaves 1 job waiting for ever, with 0 workers on 1 device"
    );
    assert_eq!(error(&[fine.clone(), fine.clone()], 1, 1), JobError::Twice { job: 1 }.to_string());
    let late = Job { arrival: f64::NAN, ..fine.clone() };
    assert_eq!(error(&[late], 1, 1), "job 1: arrival must be a number of seconds, 0 or more");
    let greedy = job(1, 0.0, &[gpu(1.0, 1, 1.5)]);
    assert_eq!(error(&[greedy], 1, 1), "job 1: demand must be 0 to 1");
    let lying = Job { mem: Bytes(1), ..fine };
    assert!(error(&[lying], 1, 1).contains("above the 1 bytes that the job declares"));
    assert_eq!(run(1, 1, "alg3", &[]).unwrap().summary.throughput, 0.0);
}

/// A job that gets no worker because no device could hold it still has its line, so that a reader knows every job.
#[test]
fn a_refused_job_begins_and_ends_like_others() {
    for name in ["sa", "slurm", "case-mig"] {
        let isolated = Job { isolated: true, ..job(7, 0.0, &[Phase::Host(1.0), gpu(1.0, 20, 0.0)]) };
        let run = run(1, 1, name, &[isolated]).unwrap();
        let kinds: Vec<&str> = run.events.iter().map(kind).collect();
        assert_eq!(kinds, ["node", "job", "begin", "refuse", "end"], "{name}");
        assert_eq!(audit(&run.events), [], "{name}");
    }
}

fn kind(event: &RunEvent) -> &'static str {
    match event {
        RunEvent::Node { .. } => "node",
        RunEvent::Layout { .. } => "layout",
        RunEvent::Sched(Sched::Job { .. }) => "job",
        RunEvent::Begin { .. } => "begin",
        RunEvent::Sched(Sched::Grant { .. }) => "grant",
        RunEvent::Sched(Sched::Wait { .. }) => "wait",
        RunEvent::Sched(Sched::Refuse { .. }) => "refuse",
        RunEvent::Crash { .. } => "crash",
        RunEvent::Sched(Sched::Free { .. }) => "free",
        RunEvent::Sched(Sched::End { .. }) => "end",
    }
}

/// CASE-MIG prints `==`: a job that needs all of an instance belongs to it. A task that shares leaves some memory free.
#[test]
fn an_isolated_job_may_fill_its_instance() {
    let devices = vec![Device { mem: Bytes(5 * GB), ..V100 }, Device { mem: Bytes(9 * GB), ..V100 }];
    let setup = Setup { pool: Pool::new(&devices), workers: 4, order: Order::Arrival };
    let full = job(1, 0.0, &[gpu(1.0, 5, 0.0)]);
    let jobs = [Job { isolated: true, ..full.clone() }, Job { id: WorkerId(2), ..full }];
    let run = simulate(&setup, &jobs, policy::by_name("case-mig").unwrap()).unwrap();
    let grants: Vec<DeviceId> = run
        .events
        .iter()
        .filter_map(|event| match event {
            RunEvent::Sched(Sched::Grant { dev, .. }) => Some(*dev),
            _ => None,
        })
        .collect();
    assert_eq!(grants, [DeviceId(0), DeviceId(1)]);
    assert_eq!(audit(&run.events), []);
}

fn any_job() -> impl Strategy<Value = Job> {
    let task = (0u32..4, 0u64..12, 1u64..3000, 1u64..=1024, 0u32..=4).prop_map(
        |(s, gb, blocks, threads, demand)| {
            let need = Need::new(Bytes(gb * GB), blocks, threads).unwrap();
            Phase::Gpu { seconds: f64::from(s), need, demand: f64::from(demand) / 4.0 }
        },
    );
    let phase = prop_oneof![(0u32..3).prop_map(|s| Phase::Host(f64::from(s))), task];
    (0u32..6, any::<bool>(), prop::collection::vec(phase, 0..4))
        .prop_map(|(arrival, isolated, phases)| Job { isolated, ..job(0, f64::from(arrival), &phases) })
}

fn any_device() -> impl Strategy<Value = Device> {
    (1u64..11, 1u32..6, prop::option::of(1u32..4)).prop_map(|(gb, sms, max_workers)| Device {
        mem: Bytes(gb * GB),
        sms,
        max_workers,
        ..V100
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Under every policy, whatever the jobs: the run ends, every job once, and the audit finds nothing.
    #[test]
    fn every_job_ends_and_every_run_is_legal(
        devices in prop::collection::vec(any_device(), 1..4),
        mut jobs in prop::collection::vec(any_job(), 0..12),
        workers in 1usize..6,
        which in 0..policy::NAMES.len(),
    ) {
        (0..).zip(&mut jobs).for_each(|(id, job)| job.id = WorkerId(id));
        let setup = Setup { pool: Pool::new(&devices), workers, order: Order::Arrival };
        let run = simulate(&setup, &jobs, policy::by_name(policy::NAMES[which]).unwrap()).unwrap();
        prop_assert_eq!(audit(&run.events), []);
        prop_assert_eq!(run.events.iter().filter(|e| kind(e) == "end").count(), jobs.len());
        prop_assert_eq!(run.events.iter().filter(|e| kind(e) == "job").count(), jobs.len());
        for event in &run.events {
            if let RunEvent::Sched(Sched::Job { t, arrival, .. }) = event {
                prop_assert!(t >= arrival);
            }
        }
    }

    /// Runs the mixes with instances that the policy makes.
    #[test]
    fn every_job_ends_where_instances_are_made(
        gpus in 1usize..3,
        model in prop_oneof![Just("a100-40gb"), Just("a30-24gb"), Just("rtx-pro-6000-96gb")],
        mut jobs in prop::collection::vec(any_job(), 0..40),
        workers in 1usize..20,
    ) {
        (0..).zip(&mut jobs).for_each(|(id, job)| job.id = WorkerId(id));
        let node = Node::parse(&format!("{model},{gpus}")).unwrap();
        let setup = Setup { pool: node.pool("tessera"), workers, order: Order::Arrival };
        let run = simulate(&setup, &jobs, policy::by_name("tessera").unwrap()).unwrap();
        prop_assert_eq!(audit(&run.events), []);
        prop_assert_eq!(run.events.iter().filter(|e| kind(e) == "end").count(), jobs.len());
        let parts = [run.summary.mem_util, run.summary.warp_util];
        prop_assert!(parts.iter().all(|part| (0.0..=1.0 + 1e-9).contains(part)), "{:?}", parts);
    }
}
