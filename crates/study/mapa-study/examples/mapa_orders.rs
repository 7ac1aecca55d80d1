//! How much of a simulation's quartiles is the order of its queue: MAPA's rules and ours over random orders of one job
//! file.
//!
//! `cargo run -p mapa-study --example mapa_orders -- crates/study/mapa-study/tests/data/mapa/jobs300.txt dgx-v 200 [SEED]`
//!
//! Every job is queued at the start, first in, first out. The rules differ in which of the sets that tie they take
//! ([`Ties`]) and in what they refuse while others run, which blocks the queue: sensitive jobs' sets at or below 12.336
//! GB/s, and one GPU where no NVLink would remain among the other free ones. MAPA's program does both.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a measurement"
)]

use std::collections::HashMap;

use geometry::GpuIndex;
use mapa::Query;
use mapa_study::{Patience, Rules, SimJob, choose, parse_jobs, quartiles, simulate};
use topology::{BandwidthModel, GpuSet, HardwareGraph, Pattern, Selection, System};

/// Bandwidth that MAPA's program refuses for a sensitive job, GB/s: the result of Equation 2 for one GPU, rounded up.
const REFUSED: f64 = 12.336;

/// Choice among sets that tie.
#[derive(Clone, Copy, PartialEq)]
enum Ties {
    /// The first that MAPA's program meets: the lowest.
    Lowest,
    /// The one that leaves most among the free GPUs.
    Free,
    /// The set that leaves most among all others.
    All,
    /// The set that leaves most among the free GPUs, then among these and the GPUs of the jobs that
    /// end first; then among all others. What the library does.
    Next,
    /// As `Next`, but a job's end is foretold by a time limit of one to four times its run time.
    Limit,
    /// As `Next`, but every job has the same limit, far above what it needs: the oldest is taken to end first.
    Oldest,
}

struct Rule {
    name: &'static str,
    ties: Ties,
    refuses_sets: bool,
    refuses_one: bool,
}

const fn rule(name: &'static str, ties: Ties, refuses_sets: bool, refuses_one: bool) -> Rule {
    Rule { name, ties, refuses_sets, refuses_one }
}

/// The second is what the others are compared with.
const RULES: [Rule; 12] = [
    rule("lowest", Ties::Lowest, false, false),
    rule("free", Ties::Free, false, false),
    rule("free, all", Ties::All, false, false),
    rule("free, next, all", OURS, false, false),
    rule("  by limits", Ties::Limit, false, false),
    rule("  by equal limits", Ties::Oldest, false, false),
    rule("free; poor sets refused", Ties::Free, true, false),
    rule("free, all; poor sets", Ties::All, true, false),
    rule("free, next, all; poor sets", OURS, true, false),
    rule("lowest; all refusals", Ties::Lowest, true, true),
    rule("free; all refusals", Ties::Free, true, true),
    rule("free, next, all; all", OURS, true, true),
];

const OURS: Ties = Ties::Next;

/// A job, and the time after which it would be ended.
#[derive(Clone)]
struct Queued {
    job: SimJob,
    limit: u64,
}

/// A set with its best ring, whatever else is free.
struct Scored {
    set: GpuSet,
    eff_bw: f64,
    /// AggBW of its best ring, by which MAPA's program breaks ties of insensitive jobs.
    agg_bw: f64,
    /// Links among its members, by which ours does.
    own: f64,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, system, orders, seed @ ..] = &args[..] else {
        panic!("usage: mapa_orders FILE SYSTEM ORDERS [SEED]")
    };
    let system = System::find(system).expect("a named system");
    let graph = system.graph(system.size).unwrap();
    let mut random = Random(seed.first().map_or(1, |s| s.parse().unwrap()));
    let jobs = parse_jobs(&std::fs::read_to_string(file).unwrap()).unwrap();
    let queued = |job: SimJob| {
        let limit = job.run * (100 + random.below(300)) / 100;
        Queued { job: SimJob { arrival: 0, ..job }, limit }
    };
    let mut jobs: Vec<Queued> = jobs.into_iter().map(queued).collect();
    let sets: Vec<Vec<Scored>> =
        (0..=jobs.iter().map(|j| j.job.gpus).max().unwrap()).map(|n| scored(&graph, n)).collect();
    let mut runs: Vec<Run<'_>> =
        RULES.iter().map(|rule| Run { rule, graph: &graph, sets: &sets, known: HashMap::new() }).collect();
    println!("as in the file: rule, 25 %, 50 %, makespan");
    for run in &mut runs {
        let (quarters, end) = run.simulate(&jobs);
        println!("{:26} {:6.2} {:6.2} {end:5}", run.rule.name, quarters[1], quarters[2]);
    }
    let refuse = |last_links| Patience::Refuse { least: REFUSED, last_links };
    for (rule, patience) in [(3, Patience::Take), (8, refuse(false)), (11, refuse(true))] {
        check(&graph, &jobs, &mut runs[rule], patience);
    }
    let orders: u64 = orders.parse().unwrap();
    let mut seen: Vec<Vec<[f64; 3]>> = vec![Vec::new(); runs.len()];
    for _ in 0..orders {
        random.shuffle(&mut jobs);
        for (run, seen) in runs.iter_mut().zip(&mut seen) {
            let (quarters, end) = run.simulate(&jobs);
            seen.push([quarters[1], quarters[2], end as f64]);
        }
    }
    println!(
        "{orders} random orders: rule, mean of 25 % (standard deviation), of 50 %, of makespan; what 25 % and 50 % are \
         above the second rule's (standard error)"
    );
    for (run, of) in runs.iter().zip(&seen) {
        let means = [0, 1, 2].map(|i| mean_and_deviation(of.iter().map(|s| s[i])));
        let above = [0, 1].map(|i| mean_and_deviation(of.iter().zip(&seen[1]).map(|(s, t)| s[i] - t[i])));
        let error = |deviation: f64| deviation / (orders as f64).sqrt();
        println!(
            "{:26} {:6.2} ({:.2}) {:6.2} {:7.1}   {:+.2} ({:.2}) {:+.2} ({:.2})",
            run.rule.name,
            means[0].0,
            means[0].1,
            means[1].0,
            means[2].0,
            above[0].0,
            error(above[0].1),
            above[1].0,
            error(above[1].1),
        );
    }
}

fn mean_and_deviation(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let n = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / n;
    (mean, (values.map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt())
}

/// A rule that is the library's own: the same result, to the digit.
fn check(graph: &HardwareGraph, jobs: &[Queued], run: &mut Run<'_>, patience: Patience) {
    let (policy, model) = (Selection::Preserve, BandwidthModel::Mapa2021);
    let alone: Vec<SimJob> = jobs.iter().map(|j| j.job.clone()).collect();
    let ran =
        simulate(graph, &alone, Rules { policy, model, patience, first_of_ties: false, communication: None });
    let sensitive = alone.iter().zip(&ran).filter(|(job, _)| job.sensitive);
    let library: Vec<f64> =
        sensitive.map(|(_, r)| r.as_ref().unwrap().choice.scores.eff_bw.unwrap()).collect();
    assert_eq!(quartiles(&library).unwrap(), run.simulate(jobs).0, "{}", run.rule.name);
}

fn scored(graph: &HardwareGraph, n: usize) -> Vec<Scored> {
    let sets = (1_u64..1 << graph.len()).filter(|m| m.count_ones() as usize == n).map(GpuSet::from_bits);
    let best = |free, policy| {
        let (pattern, model) = (&Pattern::Ring, BandwidthModel::Mapa2021);
        choose(&Query { graph, free, next: GpuSet::EMPTY, n, pattern, sensitive: true, policy, model })
            .unwrap()
            .scores
    };
    let score = |set| Scored {
        set,
        eff_bw: best(set, Selection::Preserve).eff_bw.unwrap(),
        agg_bw: best(set, Selection::Greedy).agg_bw,
        own: own(graph, set),
    };
    sets.map(score).collect()
}

fn own(graph: &HardwareGraph, set: GpuSet) -> f64 {
    let gpus: Vec<GpuIndex> = set.iter().collect();
    let pairs = gpus.iter().enumerate().flat_map(|(i, a)| gpus[i + 1..].iter().map(move |b| (*a, *b)));
    pairs.map(|(a, b)| graph.link(a, b).unwrap().gbps()).sum()
}

/// Free GPUs, those that come back next, number asked for, whether it is sensitive.
type Question = (u64, u64, usize, bool);

struct Run<'a> {
    rule: &'a Rule,
    graph: &'a HardwareGraph,
    sets: &'a [Vec<Scored>],
    known: HashMap<Question, Option<(GpuSet, f64)>>,
}

struct Running {
    end: u64,
    /// When the rule takes it to end.
    expected: u64,
    set: GpuSet,
}

impl Run<'_> {
    /// Quartiles of the sensitive jobs' EffBW, and the makespan.
    fn simulate(&mut self, jobs: &[Queued]) -> ([f64; 5], u64) {
        let (mut free, mut now, mut end) = (self.graph.all(), 0, 0);
        let mut running: Vec<Running> = Vec::new();
        let mut got = Vec::new();
        for Queued { job, limit } in jobs {
            let (set, eff_bw) = loop {
                if let Some(chosen) = self.choose(free, first_back(&running), job) {
                    break chosen;
                }
                now = running.iter().map(|r| r.end).min().expect("what starts alone is not refused");
                for ended in running.extract_if(.., |r| r.end == now) {
                    free = GpuSet::from_bits(free.bits() | ended.set.bits());
                }
            };
            free = GpuSet::from_bits(free.bits() & !set.bits());
            let expected = match self.rule.ties {
                Ties::Limit => now + limit,
                Ties::Oldest => now,
                _ => now + job.run,
            };
            running.push(Running { end: now + job.run, expected, set });
            end = end.max(now + job.run);
            got.extend(job.sensitive.then_some(eff_bw));
        }
        (quartiles(&got).unwrap(), end)
    }

    fn choose(&mut self, free: GpuSet, next: GpuSet, job: &SimJob) -> Option<(GpuSet, f64)> {
        let key = (free.bits(), next.bits(), job.gpus, job.sensitive);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let chosen = self.search(free, next, job.gpus, job.sensitive && job.gpus > 1);
        self.known.insert(key, chosen);
        chosen
    }

    fn search(&self, free: GpuSet, next: GpuSet, n: usize, by_rate: bool) -> Option<(GpuSet, f64)> {
        let left = |others: GpuSet, set: GpuSet| {
            self.graph.preserved_bw(GpuSet::from_bits(others.bits() & !set.bits()))
        };
        let with_next = GpuSet::from_bits(free.bits() | next.bits());
        let mut best: Option<(Vec<f64>, &Scored)> = None;
        for scored in self.sets[n].iter().filter(|s| s.set.bits() & !free.bits() == 0) {
            let set = scored.set;
            let mut worth = if by_rate { vec![scored.eff_bw] } else { vec![left(free, set)] };
            match self.rule.ties {
                Ties::Lowest if by_rate => (),
                Ties::Lowest => worth.push(scored.agg_bw),
                Ties::Free => worth.push(left(free, set)),
                Ties::All => worth.extend([left(free, set), left(self.graph.all(), set)]),
                _ => worth.extend([left(free, set), left(with_next, set), left(self.graph.all(), set)]),
            }
            if !by_rate && self.rule.ties != Ties::Lowest {
                worth.push(scored.own);
            }
            let first = |other: &Scored| set.bits().reverse_bits() > other.set.bits().reverse_bits();
            // Rates are sums of fractions: what differs by rounding alone ties.
            let order = |(a, b): (&f64, &f64)| {
                if (a - b).abs() < 1e-6 { std::cmp::Ordering::Equal } else { a.total_cmp(b) }
            };
            let beats = |(key, other): &(Vec<f64>, &Scored)| {
                let by_key = worth.iter().zip(key).map(order).find(|o| o.is_ne());
                by_key.map_or_else(|| first(other), std::cmp::Ordering::is_gt)
            };
            if best.as_ref().is_none_or(beats) {
                best = Some((worth, scored));
            }
        }
        let (_, scored) = best?;
        let poor = by_rate && self.rule.refuses_sets && scored.eff_bw <= REFUSED;
        let last = n == 1 && self.rule.refuses_one && left(free, scored.set) <= 0.0;
        (free == self.graph.all() || !(poor || last)).then_some((scored.set, scored.eff_bw))
    }
}

/// GPUs of the jobs that are taken to end first.
fn first_back(running: &[Running]) -> GpuSet {
    let first = running.iter().map(|r| r.expected).min();
    let of = running.iter().filter(|r| Some(r.expected) == first);
    GpuSet::from_bits(of.fold(0, |bits, r| bits | r.set.bits()))
}

/// Numbers of a linear congruential generator (Knuth's MMIX).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// Fisher and Yates.
    fn shuffle(&mut self, jobs: &mut [Queued]) {
        for i in (1..jobs.len()).rev() {
            jobs.swap(i, usize::try_from(self.below(i as u64 + 1)).unwrap());
        }
    }
}
