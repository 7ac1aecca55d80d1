//! The streams on which Preserve is worth having.

use paper_rows::{Basis, Measure, PaperRow, PaperTable, RowGroup};
use topology::{HardwareGraph, Pattern, Selection, System};

use super::{as_f64, cycles, rules};
use crate::simulator::{SimJob, simulate};

/// A sequence of numbers that the seed alone decides (splitmix64).
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        f64::from(u32::try_from((z ^ (z >> 31)) >> 32).unwrap_or(0)) / 4_294_967_296.0
    }
}

/// Draws as many jobs as there are, with the sizes and run times of the 300, `share` of them sensitive, that ask for `load` of the GPUs
/// on average. A load of 0 is all at once.
fn stream(jobs: &[SimJob], (share, load): (f64, f64), gpus: usize, seed: u64) -> Vec<SimJob> {
    let mut numbers = Numbers(seed);
    let asked: f64 =
        jobs.iter().map(|job| as_f64(job.gpus) * cycles(job.run)).sum::<f64>() / as_f64(jobs.len());
    let mut now = 0.0;
    let one = |_: &SimJob| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index, and a time")]
        let (at, arrival) = {
            now +=
                if load > 0.0 { -(1.0 - numbers.unit()).ln() * asked / (as_f64(gpus) * load) } else { 0.0 };
            ((numbers.unit() * as_f64(jobs.len())) as usize, (now * SCALE) as u64)
        };
        let job = &jobs[at.min(jobs.len() - 1)];
        let run = job.run * SCALE_CYCLES;
        let sensitive = numbers.unit() < share;
        SimJob { arrival, run, sensitive, label: sensitive, pattern: Pattern::Ring, ..job.clone() }
    };
    jobs.iter().map(one).collect()
}

/// A cycle of the file is so many here, so that arrivals are not rounded to it.
const SCALE: f64 = 100.0;
const SCALE_CYCLES: u64 = 100;

/// Mean EffBW of the sensitive jobs with several GPUs, at most 50 GB/s, beyond which nothing gets faster.
fn mean_eff_bw(graph: &HardwareGraph, jobs: &[SimJob], policy: Selection, first: bool) -> f64 {
    let ran = simulate(graph, jobs, rules(policy, first, None));
    let several = jobs.iter().zip(&ran).filter(|(job, _)| job.sensitive && job.gpus > 1);
    let of = several.filter_map(|(_, ran)| Some(ran.as_ref()?.choice.scores.eff_bw?.min(50.0)));
    let (sum, n) = of.fold((0.0, 0.0), |(sum, n), gbps| (sum + gbps, n + 1.0));
    sum / f64::max(n, 1.0)
}

/// Streams of the table on Preserve.
const LOADS: [(f64, &str); 5] =
    [(0.3, "load 0.3"), (0.5, "load 0.5"), (0.7, "load 0.7"), (0.9, "load 0.9"), (0.0, "at once")];

/// Gain of Preserve over greedy and over greedy with the first of ties, percent of EffBW, for each seed.
fn gains(graph: &HardwareGraph, jobs: &[SimJob], (share, load): (f64, f64), seeds: u64) -> Vec<[f64; 2]> {
    let one = |seed| {
        let jobs = stream(jobs, (share, load), graph.len(), seed);
        let preserve = mean_eff_bw(graph, &jobs, Selection::Preserve, false);
        // Every set of 16 GPUs is too many.
        let firsts = [false, true].into_iter().take(if graph.len() > 8 { 1 } else { 2 });
        let over = firsts
            .map(|first| 100.0 * (preserve / mean_eff_bw(graph, &jobs, Selection::Greedy, first) - 1.0));
        let over: Vec<f64> = over.collect();
        [over[0], over.get(1).copied().unwrap_or(f64::NAN)]
    };
    (1..=seeds).map(one).collect()
}

fn gain_row(label: String, values: &[f64]) -> PaperRow {
    let (mean, error) = mean_and_error(values);
    PaperRow { spread: Some((mean - 2.0 * error, mean + 2.0 * error)), ..PaperRow::new(label, None, mean) }
}

fn gain_group(what: String, rows: Vec<PaperRow>) -> RowGroup {
    RowGroup { what, basis: Basis::Predicted, measure: Measure::Points, within: 0.0, rows }
}

pub(super) fn worth(graph: &HardwareGraph, jobs: &[SimJob], seeds: u64) -> PaperTable {
    let mut groups = Vec::new();
    for (load, name) in LOADS {
        let mut rows = Vec::new();
        for share in [0.2, 0.5, 0.8] {
            let gains = gains(graph, jobs, (share, load), seeds);
            for (at, over) in ["greedy", "greedy with the first of ties"].into_iter().enumerate() {
                let all: Vec<f64> = gains.iter().map(|gain| gain[at]).collect();
                let percent = 100.0 * share;
                rows.push(gain_row(format!("dgx-v, {name}, {percent:.0} % sensitive, over {over}"), &all));
            }
        }
        groups.push(gain_group(name.to_owned(), rows));
    }
    for system in ["torus-2d", "cubemesh-16"] {
        let Some(graph) = System::find(system).and_then(|system| system.graph(16)) else { continue };
        let row = |&(load, name): &(f64, &str)| {
            let all: Vec<f64> = gains(&graph, jobs, (0.5, load), seeds).iter().map(|gain| gain[0]).collect();
            gain_row(format!("{system}, {name}, 50 % sensitive, over greedy"), &all)
        };
        groups.push(gain_group(system.to_owned(), LOADS[2..].iter().map(row).collect()));
    }
    PaperTable {
        name: "Where Preserve is worth having",
        title: format!(
            "percent more EffBW (up to 50 GB/s) for sensitive jobs with several GPUs, mean of {seeds} streams of 300 jobs; the \
             spread is two standard errors of the paired difference"
        ),
        groups,
        notes: vec![WORTH_NOTE.to_owned()],
    }
}

const WORTH_NOTE: &str = "Over a greedy that takes the first of ties, Preserve is worth having on every stream, the more the fuller the node. Over a \
                          greedy that breaks ties as Tessera's does, it is worth nothing on eight GPUs. On 16 GPUs, where more sets \
                          tie and fewer are as good, it is.";

pub(super) fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let n = as_f64(values.len().max(1));
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / f64::max(n - 1.0, 1.0) / n).sqrt())
}
