//! Decision times and memory: every pattern, policy, model and number of GPUs, the worst occupancy and the infeasible
//! question, on 8 and 16 GPUs.
//!
//! The table is of the thread's processor time, the best of seven runs, so that other load on the machine does not
//! count; a decision never waits. `-- --quick` for fewer occupancies; `EVERY=1` in the environment for all with up to
//! three of 16 GPUs busy, and all of 8 (twenty minutes).
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

#[path = "../tests/mapa_common/mod.rs"]
mod mapa_common;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use mapa::{Match, Memo, Query, choose};
use mapa_common::{from_list, system};
use rustix::time::{ClockId, clock_gettime};
use topology::{BandwidthModel, GpuSet, HardwareGraph, Pattern, Selection};

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

/// Choice of the busy GPUs.
#[derive(Clone, Copy)]
enum Busy {
    /// None, and so many sets in all of up to a third; always the same ones.
    Some(usize),
    /// Every set of up to so many.
    UpTo(u32),
}

impl Busy {
    fn occupancies(self, graph: &HardwareGraph) -> Vec<GpuSet> {
        let all = graph.all().bits();
        let busy: Vec<u64> = match self {
            Self::Some(n) => {
                let mut seed = 7_u64;
                let mut next = move || {
                    seed =
                        seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    seed >> 33
                };
                let size = graph.len() as u64;
                let mut busy = |count: usize| (0..count).fold(0, |set, _| set | 1_u64 << (next() % size));
                (0..n).map(|i| busy(i % (graph.len() / 3 + 1))).collect()
            }
            Self::UpTo(most) => (0..all).filter(|busy| busy.count_ones() <= most).collect(),
        };
        busy.into_iter().map(|busy| GpuSet::from_bits(all & !busy)).collect()
    }
}

#[derive(Default)]
struct Worst {
    us: f64,
    what: String,
    bytes: usize,
}

/// Writes a row per pattern, policy and model: the slowest occupancy's microseconds for each number of GPUs.
fn table(name: &str, graph: &HardwareGraph, busy: Busy) {
    tables(name, graph, busy, ("slurmctld's search", |query| choose(query).ok()));
    tables(name, graph, busy, ("exact search", |query| mapa_study::choose(query).ok()));
}

/// A way to choose, and its name.
type Chooser = (&'static str, fn(&Query<'_>) -> Option<Match>);

fn tables(name: &str, graph: &HardwareGraph, busy: Busy, chooser: Chooser) {
    let occupancies = busy.occupancies(graph);
    println!("\n{name}, {}, {} occupancies; µs for n = 1, 2, …", chooser.0, occupancies.len());
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
                    for &free in &occupancies {
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
                        let mut us = 0.0;
                        bytes = bytes.max(ffi::most_bytes(&mut || us = time(chooser, &query, &line, worst)));
                        worst = worst.max(us);
                        if us > all.us {
                            (all.us, all.what) = (us, line);
                        }
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

/// Microseconds, the best of seven runs if the first one is slower than `worst`; an answer of the exact search that is not
/// proven ends the benchmark.
fn time((name, choose): Chooser, query: &Query<'_>, line: &str, worst: f64) -> f64 {
    let once = || {
        let start = cpu_us();
        let choice = black_box(choose(query));
        let us = cpu_us() - start;
        let proven = choice.is_some_and(|c| c.exact) || query.free.len() < query.n;
        assert!(proven || name != "exact search", "{line}");
        us
    };
    let first = once();
    let more = if first > worst { 6 } else { 0 };
    (0..more).map(|_| once()).fold(first, f64::min)
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
    let every = std::env::var_os("EVERY").is_some();
    for (name, most) in [("dgx-v", 7), ("torus-2d", 3), ("cubemesh-16", 3)] {
        let some = Busy::Some(if few { 4 } else { 12 });
        table(name, &system(name), if every { Busy::UpTo(most) } else { some });
    }
    for seed in [2, 3] {
        table(&format!("random links {seed}"), &random(seed), Busy::Some(if few { 1 } else { 4 }));
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
