//! Small runs whose every number can be worked out by hand.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use case::sim::{Job, JobError, Outcome, Phase, Setup, Stuck, simulate};
use case::{Bytes, Device, Event, JobId, Need, Order, policy};

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
    Job { id: JobId(id), name: String::new(), arrival, isolated: false, mem, phases: phases.to_vec() }
}

fn run(devices: usize, workers: usize, policy: &str, jobs: &[Job]) -> Result<Outcome, Stuck> {
    let setup = Setup { devices: vec![Device::V100; devices], workers, order: Order::Arrival };
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
    close(run.summary.mem_util, (2.0 * 3.0 + 4.0) * GB as f64 / (7.0 * Device::V100.mem.0 as f64));
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
        Event::Refuse { why, .. } => Some(why.as_str()),
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
        "alg3 starts none of the 1 jobs left, with 0 workers on 1 devices"
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
