//! Decision times: idle, worst occupancy and infeasible, on 8 and 16 GPUs.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

#[path = "../tests/mapa_common/mod.rs"]
mod mapa_common;

use std::hint::black_box;
use std::time::Instant;

use criterion::{Criterion, criterion_group, criterion_main};
use mapa_common::system;
use placement::GpuSet;
use placement::mapa::{AppPattern, BandwidthModel, HardwareGraph, Memo, Query, Selection, choose};

fn each(graph: &HardwareGraph, free: GpuSet, f: &mut dyn FnMut(&str, &Query<'_>)) {
    for name in AppPattern::NAMES {
        let pattern = AppPattern::parse(name).unwrap();
        for n in 1..=free.len() {
            for (what, policy, sensitive, model) in [
                ("preserve", Selection::Preserve, true, BandwidthModel::default()),
                ("insensitive", Selection::Preserve, false, BandwidthModel::default()),
                ("greedy", Selection::Greedy, true, BandwidthModel::default()),
                ("mapa2021", Selection::Preserve, true, BandwidthModel::Mapa2021),
            ] {
                let query = Query { graph, free, n, pattern: &pattern, sensitive, policy, model };
                f(&format!("{name} {what} n={n}"), &query);
            }
        }
    }
}

/// The slowest question per pattern and policy: every occupancy is no slower than the idle node, which has most sets.
fn table(name: &str, free: u64) {
    let graph = system(name);
    let free = GpuSet::from_bits(free & graph.all().bits());
    let mut worst: Vec<(String, f64, String)> = Vec::new();
    each(&graph, free, &mut |what, query| {
        let time = || {
            let start = Instant::now();
            let exact =
                black_box(choose(query)).map_or("refused", |c| if c.exact { "exact" } else { "not proven" });
            (start.elapsed().as_secs_f64() * 1e6, exact)
        };
        let runs: Vec<(f64, &str)> = (0..5).map(|_| time()).collect();
        let best = runs.iter().map(|r| r.0).fold(f64::INFINITY, f64::min);
        let key = what.rsplit_once(' ').unwrap().0.to_owned();
        let line = format!("{what} {}", runs[0].1);
        match worst.iter_mut().find(|w| w.0 == key) {
            Some(w) if w.1 >= best => {}
            Some(w) => *w = (key, best, line),
            None => worst.push((key, best, line)),
        }
    });
    for (_, us, line) in worst {
        println!("{name} free {free}: {us:9.1} us  {line}");
    }
}

fn decisions(c: &mut Criterion) {
    for name in ["dgx-v", "torus-2d", "cubemesh-16"] {
        table(name, u64::MAX);
    }
    table("torus-2d", 0b0111_1101_1011_1110);
    let ring = AppPattern::Ring;
    let query = |graph, free, n| Query {
        graph,
        free,
        n,
        pattern: &ring,
        sensitive: true,
        policy: Selection::Preserve,
        model: BandwidthModel::default(),
    };
    let dgx = system("dgx-v");
    let torus = system("torus-2d");
    for n in [2, 5, 8] {
        c.bench_function(&format!("dgx-v ring n={n}"), |b| b.iter(|| choose(&query(&dgx, dgx.all(), n))));
    }
    for n in [4, 8, 16] {
        c.bench_function(&format!("torus-2d ring n={n}"), |b| {
            b.iter(|| choose(&query(&torus, torus.all(), n)))
        });
    }
    let few = GpuSet::from_bits(0x7fff);
    c.bench_function("torus-2d infeasible", |b| b.iter(|| choose(&query(&torus, few, 16))));
    let mut memo = Memo::default();
    c.bench_function("torus-2d n=8 memoised", |b| b.iter(|| memo.choose(&query(&torus, torus.all(), 8))));
}

criterion_group!(benches, decisions);
criterion_main!(benches);
