//! How long a choice takes: two applications, 24 candidates, with and without the guard; a budget over 64
//! GPUs with different applications; and the fit before all that.
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark")]

#[path = "../tests/calibration/mod.rs"]
mod calibration;

use std::hint::black_box;

use calibration::{Calibration, cap};
use criterion::{Criterion, criterion_group, criterion_main};
use power::Basis;
use power_study::{Group, Problem, Question, choose, divide};

fn benches(c: &mut Criterion) {
    let data = Calibration::new(1, 0.1);
    let model = data.fit().unwrap();
    // hgemm and stream were never measured together, igemm4 and stream were.
    for (name, workload) in [("predicted", [2, 14]), ("measured", [5, 14])] {
        let (apps, features) = data.of(&workload);
        for (problem, of) in
            [("efficiency", Problem::Efficiency), ("throughput", Problem::Throughput(cap(230)))]
        {
            for guard in [true, false] {
                let question = Question { apps: &apps, features: &features, problem: of, alpha: 0.2, guard };
                let guard = if guard { "guard" } else { "plain" };
                c.bench_function(&format!("{problem}/{name}/{guard}"), |b| {
                    b.iter(|| choose(black_box(&model), black_box(&question)));
                });
            }
        }
    }
    let group = |gpu: usize| {
        let (apps, features) = data.of(&[gpu % 24, (gpu * 7 + 3) % 24]);
        Group { gpu: format!("n{}:{}", gpu / 8, gpu % 8), apps, features }
    };
    let groups: Vec<Group> = (0..64).map(group).collect();
    c.bench_function("divide/64", |b| {
        b.iter(|| divide(black_box(&model), black_box(&groups), 12_000, 0.1, false));
    });
    let ours = data.fit_from(&data.counters_csv(), Some(Basis::Tessera)).unwrap();
    let (apps, features) = data.of(&[2, 14]);
    let question =
        Question { apps: &apps, features: &features, problem: Problem::Efficiency, alpha: 0.2, guard: true };
    c.bench_function("efficiency/predicted/guard/tessera", |b| {
        b.iter(|| choose(black_box(&ours), black_box(&question)));
    });
    c.bench_function("fit", |b| b.iter(|| black_box(&data).fit()));
}

criterion_group!(all, benches);
criterion_main!(all);
