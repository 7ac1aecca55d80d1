//! How long one decision takes, and a simulation: `cargo bench -p case-study --bench decide`.
#![allow(missing_docs, clippy::unwrap_used, reason = "benchmark")]

use std::hint::black_box;

use case_study::devices::V100;
use case_study::mix::{Machine, commands, job};
use case_study::policy;
use case_study::sim::{Job, Setup, simulate};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use task_sched::{Among, Ask, Bytes, Device, Need, Order, Pool, Scheduler, TaskId, WorkerId};

fn ask(task: u64, blocks: u64, threads: u64) -> Ask {
    let need = Need::new(Bytes(1 << 30), blocks, threads).unwrap();
    Ask {
        task: TaskId(task),
        job: WorkerId(task),
        need,
        job_mem: need.mem(),
        bound: None,
        among: Among::ALL,
        isolated: false,
        holds: false,
    }
}

/// The choice alone.
fn place(c: &mut Criterion) {
    let mut group = c.benchmark_group("place");
    let h100 = Device { mem: Bytes(80_000_000_000), sms: 132, ..V100 };
    for (devices, name) in [(4, "4"), (8, "8"), (56, "56")] {
        for policy in ["alg3", "alg2", "tessera", "case-mig"] {
            let pool = Pool::new(&vec![h100; devices]);
            let mut policy = policy::by_name(policy).unwrap();
            let ask = ask(1, 1000, 256);
            group.bench_function(BenchmarkId::new(policy.name(), name), |b| {
                b.iter(|| policy.place(black_box(&pool), black_box(&ask)));
            });
        }
    }
    group.finish();
}

/// No device has room, so every one is looked at: memory is full for Algorithm 3 and ours, warps for Algorithm 2.
fn place_nowhere(c: &mut Criterion) {
    let mut group = c.benchmark_group("place-nowhere");
    for policy in ["alg3", "alg2", "tessera"] {
        let pool = Pool::new(&[V100; 8]);
        let mut scheduler = Scheduler::new(pool, policy::by_name(policy).unwrap(), Order::Arrival);
        (0..8 * 13).for_each(|task| {
            let _ = scheduler.begin(ask(task, 380, 256));
        });
        let mem = if policy == "alg2" { Bytes(1) } else { Bytes(13 << 30) };
        let need = Need::new(mem, 500, 256).unwrap();
        let asked = Ask { need, job_mem: mem, ..ask(1000, 1, 32) };
        group.bench_function(policy, |b| {
            b.iter(|| {
                let answer = scheduler.begin(black_box(asked));
                scheduler.free(TaskId(1000)).unwrap();
                answer
            });
        });
    }
    group.finish();
}

/// A begin with its lease, and the free that gives it back.
fn begin_and_free(c: &mut Criterion) {
    let mut group = c.benchmark_group("begin-and-free");
    for policy in ["alg3", "alg2", "tessera"] {
        let pool = Pool::new(&[V100; 8]);
        let mut scheduler = Scheduler::new(pool, policy::by_name(policy).unwrap(), Order::Arrival);
        group.bench_function(policy, |b| {
            b.iter(|| {
                let answer = scheduler.begin(black_box(ask(1, 100, 256)));
                scheduler.free(TaskId(1)).unwrap();
                answer
            });
        });
    }
    group.finish();
}

fn simulation(c: &mut Criterion) {
    let mut group = c.benchmark_group("simulate");
    group.sample_size(10);
    let commands = commands();
    for n in [1_000, 10_000] {
        let jobs: Vec<Job> =
            (0..n).zip(commands.iter().cycle()).map(|(id, c)| job(id, c, Machine::V100)).collect();
        let setup = Setup { pool: Pool::new(&Machine::V100.devices()), workers: 16, order: Order::Arrival };
        for policy in ["alg3", "tessera"] {
            group.bench_function(BenchmarkId::new(policy, n), |b| {
                b.iter(|| simulate(&setup, &jobs, policy::by_name(policy).unwrap()).unwrap());
            });
        }
    }
    group.finish();
}

criterion_group!(benches, place, place_nowhere, begin_and_free, simulation);
criterion_main!(benches);
