//! Decision times and memory: every pattern, policy, model and number of GPUs, the worst occupancy and the infeasible
//! question, on 8 and 16 GPUs.
//!
//! The table is of the thread's processor time, the best of three runs, so that other load on the machine does not
//! count; a decision never waits. `-- --quick` for fewer occupancies.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

#[path = "../tests/mapa_common/mod.rs"]
mod mapa_common;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use mapa_common::{from_list, system};
use placement::mapa::{BandwidthModel, HardwareGraph, Memo, Query, Selection, choose};
use placement::{GpuSet, Pattern};
use rustix::time::{ClockId, clock_gettime};

/// Counts what is allocated.
mod ffi {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    static NOW: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);

    struct Counted;

    // SAFETY: the system's allocator does the work; only numbers are added up.
    unsafe impl GlobalAlloc for Counted {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            MOST.fetch_max(NOW.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
            // SAFETY: the caller keeps GlobalAlloc's promises, passed on as they are.
            unsafe { System.alloc(layout) }
        }
        unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
            NOW.fetch_sub(layout.size(), Relaxed);
            // SAFETY: the caller keeps GlobalAlloc's promises, passed on as they are.
            unsafe { System.dealloc(at, layout) }
        }
    }

    #[global_allocator]
    static ALLOCATOR: Counted = Counted;

    /// Most bytes that `f` held at once.
    pub(super) fn most_bytes(f: &mut dyn FnMut()) -> usize {
        let before = NOW.load(Relaxed);
        MOST.store(before, Relaxed);
        f();
        MOST.load(Relaxed) - before
    }
}

fn cpu_us() -> f64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as f64 * 1e6 + t.tv_nsec as f64 / 1e3
}

/// Idle, and some occupancies with up to a third of the GPUs busy; always the same ones.
fn occupancies(graph: &HardwareGraph, n: usize) -> Vec<GpuSet> {
    let mut seed = 7_u64;
    let mut next = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    let size = graph.len() as u64;
    let mut busy = |count: usize| (0..count).fold(0, |set, _| set | 1_u64 << (next() % size));
    (0..n).map(|i| GpuSet::from_bits(graph.all().bits() & !busy(i % (graph.len() / 3 + 1)))).collect()
}

#[derive(Default)]
struct Worst {
    us: f64,
    what: String,
    bytes: usize,
}

/// One row per pattern, policy and model: the slowest occupancy's microseconds for each number of GPUs.
fn table(name: &str, graph: &HardwareGraph, n_occupancies: usize) {
    println!("\n{name}, {n_occupancies} occupancies; µs for n = 1, 2, …");
    let mut all = Worst::default();
    for (pattern, edges) in Pattern::NAMED {
        for (what, policy, sensitive) in [
            ("baseline", Selection::Baseline, true),
            ("topo-aware", Selection::TopoAware, true),
            ("greedy", Selection::Greedy, true),
            ("preserve", Selection::Preserve, true),
            ("insensitive", Selection::Preserve, false),
        ] {
            for model in [BandwidthModel::default(), BandwidthModel::Mapa2021] {
                let mut row = String::new();
                let mut bytes = 0;
                for n in 1..=graph.len() {
                    let mut worst = 0.0_f64;
                    for free in occupancies(graph, n_occupancies) {
                        let query = Query {
                            graph,
                            free,
                            next: GpuSet::EMPTY,
                            n,
                            pattern: &edges,
                            sensitive,
                            policy,
                            model,
                        };
                        let line = format!("{pattern} {what} {} n={n} free {free}", model.name());
                        let us = time(&query, &line);
                        worst = worst.max(us);
                        if us > all.us {
                            (all.us, all.what) = (us, line);
                        }
                        bytes = bytes.max(ffi::most_bytes(&mut || drop(black_box(choose(&query)))));
                    }
                    row += &format!(" {worst:.0}");
                }
                all.bytes = all.bytes.max(bytes);
                println!("{pattern:9} {what:11} {:10}{row}", model.name());
            }
        }
    }
    println!("worst: {:.0} µs, {}; memory {:.2} MiB", all.us, all.what, all.bytes as f64 / 1048576.0);
}

/// The best of three; an answer that is not proven ends the benchmark.
fn time(query: &Query<'_>, line: &str) -> f64 {
    let once = || {
        let start = cpu_us();
        let choice = black_box(choose(query));
        let us = cpu_us() - start;
        assert!(choice.is_ok_and(|c| c.exact) || query.free.len() < query.n, "{line}");
        us
    };
    (0..3).map(|_| once()).fold(f64::INFINITY, f64::min)
}

/// Sixteen GPUs whose links follow no order.
fn random(seed: u64) -> HardwareGraph {
    let mut state = seed * 2_654_435_769 + 12_345;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        [10.0, 10.0, 10.0, 25.0, 50.0][usize::try_from(state >> 33).unwrap() % 5]
    };
    from_list(16, &(0..120).map(|_| next()).collect::<Vec<f64>>())
}

fn decisions(c: &mut Criterion) {
    let few = std::env::args().any(|a| a == "--quick");
    for name in ["dgx-v", "torus-2d", "cubemesh-16"] {
        table(name, &system(name), if few { 4 } else { 12 });
    }
    for seed in [2, 3] {
        table(&format!("random links {seed}"), &random(seed), if few { 1 } else { 4 });
    }
    let ring = Pattern::Ring;
    let query = |graph, free, n| Query {
        graph,
        free,
        next: GpuSet::EMPTY,
        n,
        pattern: &ring,
        sensitive: true,
        policy: Selection::Preserve,
        model: BandwidthModel::default(),
    };
    let (dgx, torus) = (system("dgx-v"), system("torus-2d"));
    for (name, graph, n) in [("dgx-v", &dgx, 8), ("torus-2d", &torus, 8), ("torus-2d", &torus, 16)] {
        c.bench_function(&format!("{name} ring n={n}"), |b| b.iter(|| choose(&query(graph, graph.all(), n))));
    }
    let few = GpuSet::from_bits(0x7fff);
    c.bench_function("torus-2d infeasible", |b| b.iter(|| choose(&query(&torus, few, 16))));
    let mut memo = Memo::default();
    c.bench_function("torus-2d n=8 memoised", |b| b.iter(|| memo.choose(&query(&torus, torus.all(), 8))));
}

criterion_group!(benches, decisions);
criterion_main!(benches);
