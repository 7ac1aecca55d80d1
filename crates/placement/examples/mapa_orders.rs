//! How much of a simulation's quartiles is the order of its queue: MAPA's rules and ours over random orders of one job
//! file.
//!
//! `cargo run -p placement --example mapa_orders -- crates/placement/tests/data/mapa/jobs300.txt dgx-v 200`
//!
//! Every job is queued at the start, first in, first out. The rules differ in which of the sets that tie they take
//! (MAPA's program the first it meets, here the lowest; ours the one that leaves most) and in what they refuse while
//! others run, which blocks the queue: sensitive jobs' sets at or below 12.336 GB/s, and one GPU where no NVLink would
//! remain among the other free ones. MAPA's program does both.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a measurement"
)]

use std::collections::{BinaryHeap, HashMap};

use placement::links::System;
use placement::mapa::{
    BandwidthModel, HardwareGraph, Patience, Query, Rules, Selection, SimJob, choose, parse_jobs, quartiles,
    simulate,
};
use placement::{GpuIndex, GpuSet, Pattern};

/// What MAPA's program refuses for a sensitive job, GB/s: what Equation 2 gives one GPU, rounded up.
const REFUSED: f64 = 12.336;

#[derive(Clone, Copy)]
struct Rule {
    name: &'static str,
    /// Of sensitive jobs' sets that tie, the one that leaves most; else the lowest.
    preserves: bool,
    refuses_sets: bool,
    refuses_one: bool,
}

const RULES: [Rule; 5] = [
    Rule { name: "MAPA's, nothing refused", preserves: false, refuses_sets: false, refuses_one: false },
    Rule { name: "ours, nothing refused", preserves: true, refuses_sets: false, refuses_one: false },
    Rule { name: "ours, --refuse 12.336", preserves: true, refuses_sets: true, refuses_one: false },
    Rule { name: "MAPA's, all its refusals", preserves: false, refuses_sets: true, refuses_one: true },
    Rule { name: "ours, all its refusals", preserves: true, refuses_sets: true, refuses_one: true },
];

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
    let [file, system, orders] = &args[..] else { panic!("usage: mapa_orders FILE SYSTEM ORDERS") };
    let system = System::find(system).expect("a named system");
    let graph = system.graph(system.size).unwrap();
    let mut jobs = parse_jobs(&std::fs::read_to_string(file).unwrap()).unwrap();
    jobs.iter_mut().for_each(|job| job.arrival = 0);
    let sets: Vec<Vec<Scored>> =
        (0..=jobs.iter().map(|j| j.gpus).max().unwrap()).map(|n| scored(&graph, n)).collect();
    let mut runs: Vec<Run<'_>> =
        RULES.iter().map(|rule| Run { rule, graph: &graph, sets: &sets, known: HashMap::new() }).collect();
    println!("as in the file: rule, 25 %, 50 %, makespan");
    for run in &mut runs {
        let (quarters, end) = run.simulate(&jobs);
        println!("{:26} {:6.2} {:6.2} {end:5}", run.rule.name, quarters[1], quarters[2]);
    }
    check(&graph, &jobs, &mut runs[1]);
    let orders: u64 = orders.parse().unwrap();
    let mut seen: Vec<Vec<[f64; 3]>> = vec![Vec::new(); runs.len()];
    let mut random = 1;
    for _ in 0..orders {
        shuffle(&mut jobs, &mut random);
        for (run, seen) in runs.iter_mut().zip(&mut seen) {
            let (quarters, end) = run.simulate(&jobs);
            seen.push([quarters[1], quarters[2], end as f64]);
        }
    }
    println!("{orders} random orders: rule, mean of 25 % (standard deviation), of 50 %, of makespan");
    for (run, seen) in runs.iter().zip(&seen) {
        let mean = |i: usize| seen.iter().map(|s| s[i]).sum::<f64>() / seen.len() as f64;
        let of = mean(0);
        let spread = seen.iter().map(|s| (s[0] - of).powi(2)).sum::<f64>() / (seen.len() - 1) as f64;
        println!("{:26} {of:6.2} ({:.2}) {:6.2} {:7.1}", run.rule.name, spread.sqrt(), mean(1), mean(2));
    }
}

/// The rule without refusals is the library's own: the same result, to the digit.
fn check(graph: &HardwareGraph, jobs: &[SimJob], run: &mut Run<'_>) {
    let rules = Rules {
        policy: Selection::Preserve,
        model: BandwidthModel::Mapa2021,
        patience: Patience::Take,
        communication: None,
    };
    let ran = simulate(graph, jobs, rules);
    let sensitive = jobs.iter().zip(&ran).filter(|(job, _)| job.sensitive);
    let library: Vec<f64> =
        sensitive.map(|(_, r)| r.as_ref().unwrap().choice.scores.eff_bw.unwrap()).collect();
    assert_eq!(quartiles(&library).unwrap(), run.simulate(jobs).0);
}

fn scored(graph: &HardwareGraph, n: usize) -> Vec<Scored> {
    let sets = (1_u64..1 << graph.len()).filter(|m| m.count_ones() as usize == n).map(GpuSet::from_bits);
    let best = |free, policy| {
        let (pattern, model) = (&Pattern::Ring, BandwidthModel::Mapa2021);
        choose(&Query { graph, free, n, pattern, sensitive: true, policy, model }).unwrap().scores
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

struct Run<'a> {
    rule: &'a Rule,
    graph: &'a HardwareGraph,
    sets: &'a [Vec<Scored>],
    known: HashMap<(u64, usize, bool), Option<(GpuSet, f64)>>,
}

impl Run<'_> {
    /// Quartiles of the sensitive jobs' EffBW, and the makespan.
    fn simulate(&mut self, jobs: &[SimJob]) -> ([f64; 5], u64) {
        let (mut free, mut now, mut end) = (self.graph.all(), 0, 0);
        // Largest first: ends are kept as what is left to the end of time.
        let mut running: BinaryHeap<(u64, u64)> = BinaryHeap::new();
        let mut got = Vec::new();
        for job in jobs {
            let (set, eff_bw) = loop {
                if let Some(chosen) = self.choose(free, job) {
                    break chosen;
                }
                let (left, _) = *running.peek().expect("what starts alone is not refused");
                now = u64::MAX - left;
                while let Some((_, bits)) = running.peek().copied().filter(|(l, _)| *l == left) {
                    free = GpuSet::from_bits(free.bits() | bits);
                    running.pop();
                }
            };
            free = GpuSet::from_bits(free.bits() & !set.bits());
            running.push((u64::MAX - (now + job.run), set.bits()));
            end = end.max(now + job.run);
            got.extend(job.sensitive.then_some(eff_bw));
        }
        (quartiles(&got).unwrap(), end)
    }

    fn choose(&mut self, free: GpuSet, job: &SimJob) -> Option<(GpuSet, f64)> {
        let key = (free.bits(), job.gpus, job.sensitive);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let chosen = self.search(free, job.gpus, job.sensitive && job.gpus > 1);
        self.known.insert(key, chosen);
        chosen
    }

    fn search(&self, free: GpuSet, n: usize, by_rate: bool) -> Option<(GpuSet, f64)> {
        let rest = |set: GpuSet| GpuSet::from_bits(free.bits() & !set.bits());
        let mut best: Option<([f64; 2], &Scored)> = None;
        for scored in self.sets[n].iter().filter(|s| s.set.bits() & !free.bits() == 0) {
            let left = self.graph.preserved_bw(rest(scored.set));
            let worth = match (by_rate, self.rule.preserves) {
                (true, true) => [scored.eff_bw, left],
                (true, false) => [scored.eff_bw, 0.0],
                (false, true) => [left, scored.own],
                (false, false) => [left, scored.agg_bw],
            };
            let first = |other: &Scored| scored.set.bits().reverse_bits() > other.set.bits().reverse_bits();
            // Rates are sums of fractions: what differs by rounding alone ties.
            let order = |a: f64, b: f64| {
                if (a - b).abs() < 1e-6 { std::cmp::Ordering::Equal } else { a.total_cmp(&b) }
            };
            let beats = |(key, other): &([f64; 2], &Scored)| {
                let by_key = order(worth[0], key[0]).then(order(worth[1], key[1]));
                by_key.is_gt() || (by_key.is_eq() && first(other))
            };
            if best.as_ref().is_none_or(beats) {
                best = Some((worth, scored));
            }
        }
        let (_, scored) = best?;
        let poor = by_rate && self.rule.refuses_sets && scored.eff_bw <= REFUSED;
        let left = self.graph.preserved_bw(rest(scored.set));
        let last = n == 1 && self.rule.refuses_one && left <= 0.0;
        (free == self.graph.all() || !(poor || last)).then_some((scored.set, scored.eff_bw))
    }
}

/// Fisher and Yates, with numbers of a linear congruential generator (Knuth's MMIX).
fn shuffle(jobs: &mut [SimJob], random: &mut u64) {
    for i in (1..jobs.len()).rev() {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        jobs.swap(i, usize::try_from((*random >> 33) % (i as u64 + 1)).unwrap());
    }
}
