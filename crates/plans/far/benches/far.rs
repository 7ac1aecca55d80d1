//! How long planning takes: `cargo bench -p far --bench far`.
#![allow(missing_docs, unused_imports, clippy::unwrap_used, reason = "benchmark")]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use far::far;
use far_study::generate::{GOOD, MIXED, POOR, WIDE, a100, batch};

fn policy_far(c: &mut Criterion) {
    let mut group = c.benchmark_group("far");
    group.sample_size(20).measurement_time(std::time::Duration::from_secs(2));
    group.warm_up_time(std::time::Duration::from_millis(300));
    for (name, shares) in [("poor", POOR), ("mixed", MIXED), ("good", GOOD)] {
        for n in [10, 20, 35, 100, 200, 500, 1000] {
            // Ten batches in turn, so that one lucky batch does not speak for its size.
            let problems: Vec<_> = (0..10).map(|seed| a100(batch(seed, n, shares, WIDE))).collect();
            let mut turn = 0;
            group.bench_function(BenchmarkId::new(name, n), |b| {
                b.iter(|| {
                    turn += 1;
                    far(&problems[turn % problems.len()])
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, policy_far);
criterion_main!(benches);
