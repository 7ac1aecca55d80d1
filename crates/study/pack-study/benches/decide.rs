//! Decisions on 1,213 nodes under Tessera's rank and FGD, in one run, and the tables of a mix:
//! `cargo bench -p pack-study --bench decide`. The line with the ratio counts what Tessera learns, tables included.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use cluster_rank::{Extent, Mix, Models, Shape, Tables};
use criterion::{Criterion, criterion_group, criterion_main};
use pack_study::{Run, Trace, arrivals};

/// Kinds of nodes as in the public traces: how many, cores, GPUs, model.
const NODES: [(u32, u32, u32, &str); 6] = [
    (549, 96, 8, "G2"),
    (404, 104, 2, "T4"),
    (132, 16, 2, "P100"),
    (39, 128, 8, "G3"),
    (29, 8, 1, "V100M16"),
    (60, 32, 4, "V100M32"),
];
/// Tasks as in the public traces: how many, milli-cores, GPUs, thousandths of each.
const TASKS: [(u32, u32, u32, u32); 14] = [
    (105, 3152, 1, 810),
    (87, 11_300, 1, 1000),
    (60, 11_400, 1, 1000),
    (47, 3152, 1, 1000),
    (39, 11_908, 1, 470),
    (36, 12_500, 0, 0),
    (36, 8000, 1, 470),
    (29, 32_000, 0, 0),
    (25, 18_708, 1, 1000),
    (24, 11_908, 1, 650),
    (23, 4000, 1, 320),
    (12, 4000, 1, 230),
    (5, 4000, 1, 160),
    (4, 88_000, 8, 1000),
];

fn trace() -> Trace {
    let mut nodes = "sn,cpu_milli,memory_mib,gpu,model\n".to_owned();
    for (kind, &(count, cores, gpus, model)) in NODES.iter().enumerate() {
        (0..count).for_each(|i| writeln!(nodes, "n{kind}-{i},{cores}000,1000000,{gpus},{model}").unwrap());
    }
    let mut tasks = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n".to_owned();
    for (kind, &(count, cores, gpus, milli)) in TASKS.iter().enumerate() {
        (0..count).for_each(|i| writeln!(tasks, "t{kind}-{i},{cores},1,{gpus},{milli}").unwrap());
    }
    Trace::read(("nodes", &nodes), ("tasks", &tasks)).unwrap()
}

/// The time of a whole stream of arrivals.
fn stream(trace: &Trace, policy: &str, all: &[usize]) -> Duration {
    let mut run = Run::new(trace, policy, 1).unwrap();
    let start = Instant::now();
    all.iter().for_each(|&task| drop(black_box(run.decide(task))));
    start.elapsed()
}

fn decide(c: &mut Criterion) {
    let trace = trace();
    let all = arrivals(&trace, 1, 1.3).unwrap();
    let mut group = c.benchmark_group("1213 nodes, a stream");
    group.sample_size(10);
    for policy in ["tessera", "fgd"] {
        group.bench_function(policy, |b| b.iter(|| stream(&trace, policy, &all)));
    }
    group.finish();
    let least = |policy: &str| (0..5).map(|_| stream(&trace, policy, &all)).min().unwrap().as_secs_f64();
    let (tessera, fgd) = (least("tessera"), least("fgd"));
    let us = |seconds: f64| seconds * 1e6 / f64::from(u32::try_from(all.len()).unwrap());
    println!("tessera {:.1} us, fgd {:.1} us a decision, ratio {:.2}", us(tessera), us(fgd), tessera / fgd);
}

fn tables(c: &mut Criterion) {
    let largest = Extent { gpus: 8, cores_milli: 128_000 };
    let mut full = Mix::default();
    for i in 0..2000_u32 {
        let milli = u16::try_from(i % 200 * 5 + 5).unwrap();
        full.arrived(i, Shape { cores_milli: i * 17 % 40_000, gpus: 1, milli, models: Models::ANY });
    }
    c.bench_function("tables of 256 shapes", |b| b.iter(|| Tables::new(black_box(&full), largest)));
}

criterion_group!(benches, decide, tables);
criterion_main!(benches);
