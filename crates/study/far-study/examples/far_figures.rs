//! Prints the measured tables of `docs/figures/far.md`: `cargo run --release -p far-study --example far_figures [TABLE]`
//! with TABLE one of rho, optimum, batch-sizes, strategies, refinement, concatenation, operations, batches, growth; all without one.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    reason = "prints measurements; shares readers with the tests"
)]

#[path = "../../../plans/far/tests/far_common/mod.rs"]
mod far_common;

use std::collections::BTreeMap;
use std::time::Instant;

use far::{Micros, Problem, STEPS_PER_MS, Schedule, best, far, fix_part, fix_part_best, miso, replay};
use far_common::{Instance, Reference, cell, read, references, seconds};
use far_study::generate::{GOOD, MIXED, NARROW, POOR, WIDE, a100, batch};

const BUDGET: u64 = 50 * STEPS_PER_MS;

const WORKLOADS: [(&str, [usize; 5], (f64, f64)); 6] = [
    ("Poor, Narrow", POOR, NARROW),
    ("Poor, Wide", POOR, WIDE),
    ("Mixed, Narrow", MIXED, NARROW),
    ("Mixed, Wide", MIXED, WIDE),
    ("Good, Narrow", GOOD, NARROW),
    ("Good, Wide", GOOD, WIDE),
];

type Table = fn();
type Planner = fn(&Problem) -> Schedule;

fn main() {
    let tables: [(&str, Table); 9] = [
        ("rho", rho),
        ("optimum", optimum),
        ("batch-sizes", batch_sizes),
        ("strategies", strategies),
        ("refinement", refinement),
        ("concatenation", concatenation),
        ("operations", operations),
        ("batches", batches),
        ("growth", growth),
    ];
    let wanted = std::env::args().nth(1);
    for (name, table) in tables.into_iter().filter(|(name, _)| wanted.as_deref().is_none_or(|w| w == *name)) {
        println!("\n### {name}\n");
        table();
    }
}

fn replayed(problem: &Problem, schedule: &Schedule) -> f64 {
    seconds(replay(problem, schedule).unwrap().makespan)
}

/// Means per cell over the carried instances.
fn rho() {
    println!(
        "| set | cell | reference | far | tessera | tessera over reference | worse than it | bound gap |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for set in ["psup0", "psup05"] {
        let reference = references(&format!("reference-{set}.jsonl"));
        let mut cells: BTreeMap<String, [f64; 7]> = BTreeMap::new();
        for instance in read::<Instance>(&format!("instances-{set}.jsonl")) {
            let problem = instance.problem();
            let r = &reference[&instance.id];
            let plan = best(&problem, BUDGET);
            let (ours, theirs) = (replayed(&problem, &plan.schedule), r.sw_replay);
            let classic = replayed(&problem, &far(&problem).schedule);
            let c = cells.entry(cell(&instance.id).to_owned()).or_default();
            let worse = f64::from(u8::from(ours > theirs + 1e-9));
            let gap = ours / seconds(plan.lower_bound) - 1.0;
            let add = [1.0, theirs / r.base, classic / r.base, ours / r.base, ours / theirs, worse, gap];
            c.iter_mut().zip(add).for_each(|(sum, x)| *sum += x);
        }
        for (name, [n, theirs, classic, ours, ratio, worse, gap]) in cells {
            let (gain, gap) = (100.0 * (ratio / n - 1.0), 100.0 * gap / n);
            let rhos = format!("{:.3} | {:.3} | {:.3}", theirs / n, classic / n, ours / n);
            println!("| {set} | {name} | {rhos} | {gain:+.2} % | {worse} | {gap:.2} % |");
        }
    }
}

/// Small instances against the other exact search.
fn optimum() {
    println!(
        "| GPU, times | n | instances | tessera over optT | as good or better | proven | gap to own bound | far over optT |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let known = references("optimum.jsonl");
    let mut rows: BTreeMap<(String, usize), [f64; 6]> = BTreeMap::new();
    for instance in read::<Instance>("instances-optimum.jsonl").iter().filter(|i| i.t.len() <= 10) {
        let problem = instance.problem();
        let k: &Reference = &known[&instance.id];
        let plan = best(&problem, BUDGET);
        let ours = replayed(&problem, &plan.schedule);
        let classic = replayed(&problem, &far(&problem).schedule);
        let times = if instance.id.contains("Narrow") { "Narrow" } else { "Wide" };
        let row = rows.entry((format!("{}, {times}", instance.gpu), instance.t.len())).or_default();
        let reached = f64::from(u8::from(ours <= k.opt_t + 1e-9));
        let proven = f64::from(u8::from(plan.proven_optimal));
        let gap = ours / seconds(plan.lower_bound) - 1.0;
        let add = [1.0, ours / k.opt_t - 1.0, reached, proven, gap, classic / k.opt_t - 1.0];
        row.iter_mut().zip(add).for_each(|(sum, x)| *sum += x);
    }
    let mut all = [0.0; 6];
    for ((name, n), row) in rows {
        all.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        print_optimum(&name, &n.to_string(), row);
    }
    print_optimum("all", "3 to 10", all);
}

fn print_optimum(name: &str, n: &str, [count, gap, reached, proven, own, classic]: [f64; 6]) {
    let percent = |x: f64| 100.0 * x / count;
    println!(
        "| {name} | {n} | {count} | {:+.3} % | {reached} | {proven} | {:.3} % | {:+.2} % |",
        percent(gap),
        percent(own),
        percent(classic)
    );
}

/// Table 4: batches of our own over the least work of their tasks.
fn batch_sizes() {
    println!("| workload | policy | n = 10 | 15 | 20 | 25 | 30 | 35 |");
    println!("|---|---|---|---|---|---|---|---|");
    for (name, shares) in [("Poor", POOR), ("Mixed", MIXED), ("Good", GOOD)] {
        let plans: [(&str, u64, Planner); 2] =
            [("far", 1000, |p| far(p).schedule), ("tessera", 50, |p| best(p, BUDGET).schedule)];
        for (policy, runs, plan) in plans {
            let cells = [10, 15, 20, 25, 30, 35].map(|n| {
                let one = |seed| {
                    let problem = a100(batch(seed, n, shares, WIDE));
                    replayed(&problem, &plan(&problem)) / seconds(problem.baseline())
                };
                format!("{:.3}", (0..runs).map(one).sum::<f64>() / runs as f64)
            });
            println!("| {name} | {policy} | {} |", cells.join(" | "));
        }
    }
}

/// Table 5: other strategies over FAR, batches of 15.
fn strategies() {
    println!("| workload | MISO-opt | FixPart(1,...,1) | FixPartBest | FixPart(7) | tessera |");
    println!("|---|---|---|---|---|---|");
    for (name, shares, range) in WORKLOADS {
        let mut sums = [0.0; 5];
        let runs = 200;
        for seed in 0..runs {
            let problem = a100(batch(seed, 15, shares, range));
            let partitions = problem.tree.partitions();
            let ones = fix_part(&problem, partitions.iter().max_by_key(|p| p.len()).unwrap()).unwrap();
            let whole = fix_part(&problem, partitions.iter().min_by_key(|p| p.len()).unwrap()).unwrap();
            let most = fix_part_best(&problem).unwrap();
            let fixed = [ones, most, whole].map(|f| replayed(&f.problem, &f.schedule));
            let classic = replayed(&problem, &far(&problem).schedule);
            let miso = replayed(&problem, &miso(&problem).unwrap());
            let ours = replayed(&problem, &best(&problem, BUDGET / 5).schedule);
            let all = [miso, fixed[0], fixed[1], fixed[2], ours];
            sums.iter_mut().zip(all).for_each(|(sum, x)| *sum += x / classic / runs as f64);
        }
        println!("| {name} | {} |", sums.map(|s| format!("{s:.2}")).join(" | "));
    }
}

/// Table 6: what refinement wins over phase 2, and what it does.
fn refinement() {
    println!("| workload | n = 10: gain, moves, swaps | n = 20 | n = 30 |");
    println!("|---|---|---|---|");
    for (name, shares, range) in WORKLOADS {
        let cells = [10, 20, 30].map(|n| {
            let (runs, mut sums) = (1000, [0.0; 3]);
            for seed in 0..runs {
                let problem = a100(batch(seed, n, shares, range));
                let plan = far(&problem);
                let gain = 100.0 * (seconds(plan.unrefined) / seconds(plan.refined) - 1.0);
                let add = [gain, plan.operations.moves as f64, plan.operations.swaps as f64];
                sums.iter_mut().zip(add).for_each(|(sum, x)| *sum += x / runs as f64);
            }
            format!("{:.2} %, {:.2}, {:.2}", sums[0], sums[1], sums[2])
        });
        println!("| {name} | {} |", cells.join(" | "));
    }
}

/// Table 7: one batch after another, what overlap wins over waiting for the last task of the first: turned round, and
/// with moves and swaps as well; the default policy beside it.
fn concatenation() {
    println!("| workload | n = 10: turned, moved, tessera | n = 20 | n = 30 |");
    println!("|---|---|---|---|");
    for (name, shares, range) in WORKLOADS {
        let cells = [10, 20, 30].map(|n| {
            let (runs, mut sums) = (1000, [0.0; 2]);
            for seed in 0..runs {
                let (next, waiting) = pair(seed, n, shares, range, &|p| far(p).schedule);
                let trivial = replayed(&waiting, &far(&waiting).schedule);
                let plan = far(&next);
                let overlapped = [seconds(plan.overlap.turned), replayed(&next, &plan.schedule)];
                sums.iter_mut().zip(overlapped).for_each(|(s, t)| *s += 100.0 * (trivial / t - 1.0));
            }
            let some = 50;
            let default = |p: &Problem| best(p, BUDGET / 10).schedule;
            let gain = |seed| {
                let (next, waiting) = pair(seed, n, shares, range, &default);
                replayed(&waiting, &default(&waiting)) / replayed(&next, &default(&next)) - 1.0
            };
            let ours = 100.0 * (0..some).map(gain).sum::<f64>() / some as f64;
            let [turned, moved] = sums.map(|s| s / runs as f64);
            format!("{turned:.2} %, {moved:.2} %, {ours:.2} %")
        });
        println!("| {name} | {} |", cells.join(" | "));
    }
}

/// A batch behind another: as the GPU comes free, and after the last task of the first.
fn pair(
    seed: u64,
    n: usize,
    shares: [usize; 5],
    range: (f64, f64),
    plan: &dyn Fn(&Problem) -> Schedule,
) -> (Problem, Problem) {
    let first = a100(batch(2 * seed, n, shares, range));
    let tasks = batch(2 * seed + 1, n, shares, range);
    let before = plan(&first);
    (first.then(&before, 0, tasks.clone()), first.then(&before, before.makespan(), tasks))
}

/// Table 8: moves and swaps into the overlap, in a chain of 1001 batches.
fn operations() {
    println!("| workload | n = 10: moves, swaps | n = 20 | n = 30 |");
    println!("|---|---|---|---|");
    for (name, shares, range) in WORKLOADS {
        let cells = [10, 20, 30].map(|n| {
            let mut problem = a100(batch(0, n, shares, range));
            let mut schedule = far(&problem).schedule;
            let mut sums = [0; 2];
            for seed in 1..=1000 {
                problem = problem.then(&schedule, 0, batch(seed, n, shares, range));
                let plan = far(&problem);
                sums[0] += plan.overlap.operations.moves;
                sums[1] += plan.overlap.operations.swaps;
                schedule = plan.schedule;
            }
            format!("{:.2}, {:.2}", sums[0] as f64 / 1000.0, sums[1] as f64 / 1000.0)
        });
        println!("| {name} | {} |", cells.join(" | "));
    }
}

/// Table 9: batches in a row over the least area of all their tasks, 1001 with far and 101 with the default policy.
fn batches() {
    println!("| workload | policy | n = 10 | 15 | 20 | 25 | 30 | 35 |");
    println!("|---|---|---|---|---|---|---|---|");
    for (name, shares) in [("Poor", POOR), ("Mixed", MIXED), ("Good", GOOD)] {
        let plans: [(&str, u64, Planner); 2] =
            [("far", 1000, |p| far(p).schedule), ("tessera", 100, |p| best(p, BUDGET / 10).schedule)];
        for (policy, more, plan) in plans {
            let cells = [10, 15, 20, 25, 30, 35].map(|n| {
                let mut problem = a100(batch(0, n, shares, WIDE));
                let mut least: Micros = problem.baseline();
                let mut schedule = plan(&problem);
                for seed in 1..=more {
                    let tasks = batch(seed, n, shares, WIDE);
                    least += a100(tasks.clone()).baseline();
                    problem = problem.then(&schedule, 0, tasks);
                    schedule = plan(&problem);
                }
                let end = replayed(&problem, &schedule);
                format!("{:.2} %", 100.0 * (end / seconds(least) - 1.0))
            });
            println!("| {name} | {policy} | {} |", cells.join(" | "));
        }
    }
}

/// Returns the processor time of this thread, ms: others on the machine do not count (Linux).
fn on_cpu_ms() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e6
}

/// How long planning takes, mean over 20 batches: far as the least of many runs, the default policy in processor time.
fn growth() {
    println!("| tasks | far Poor | far Mixed | far Good | tessera Mixed (50 ms budget) |");
    println!("|---|---|---|---|---|");
    for n in [10, 15, 20, 25, 30, 35, 100, 200, 400, 500, 800, 1000] {
        let clock = |shares, runs: usize, plan: &dyn Fn(&Problem)| {
            let problems: Vec<_> = (0..20).map(|seed| a100(batch(seed, n, shares, WIDE))).collect();
            let time = |p: &Problem| {
                let once = |_| {
                    let begin = Instant::now();
                    plan(p);
                    begin.elapsed().as_secs_f64() * 1e6
                };
                (0..runs).map(once).fold(f64::MAX, f64::min)
            };
            problems.iter().map(time).sum::<f64>() / problems.len() as f64
        };
        let classic = |p: &Problem| drop(std::hint::black_box(far(p)));
        let default = || {
            let problems: Vec<_> = (0..20).map(|seed| a100(batch(seed, n, MIXED, WIDE))).collect();
            let begin = on_cpu_ms();
            problems.iter().for_each(|p| drop(std::hint::black_box(best(p, BUDGET))));
            (on_cpu_ms() - begin) / problems.len() as f64
        };
        let runs = (40_000 / n).min(1000);
        let us = [POOR, MIXED, GOOD].map(|shares| format!("{:.1} µs", clock(shares, runs, &classic)));
        println!("| {n} | {} | {:.1} ms |", us.join(" | "), default());
    }
}
