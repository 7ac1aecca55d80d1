//! MAPA's tables and figures that need no hardware, on its 300 jobs, and the streams on which Preserve is worth having.

use paper_rows::{Basis, Measure, PaperRow, PaperTable, RowGroup};
use topology::{BandwidthModel, GpuSet, HardwareGraph, Selection, System};

mod learnt;
mod table_3;
mod worth;

use learnt::learnt_labels;
use table_3::table_3;
use worth::worth;

use crate::simulator::{Patience, Ran, Rules, SimJob, parse_jobs, quartiles, simulate};

const JOBS: &str = include_str!("../../tests/data/mapa/jobs300.txt");

/// Part of a sensitive job's time that is communication at 50 GB/s.
const COMMUNICATION: f64 = 0.2;

/// Computes the tables. `seeds` says how many streams each cell of the last one is the mean of.
#[must_use]
pub fn tables(seeds: u64) -> Vec<PaperTable> {
    let (Some(graph), Ok(jobs)) = (graph(), parse_jobs(JOBS)) else { return Vec::new() };
    vec![
        figure_4(&graph, &jobs),
        figure_13(&graph, &jobs),
        table_3(&graph, &jobs),
        worth(&graph, &jobs, seeds),
        learnt_labels(&jobs, seeds),
    ]
}

fn graph() -> Option<HardwareGraph> {
    System::find("dgx-v")?.graph(8)
}

fn rules(policy: Selection, first_of_ties: bool, communication: Option<f64>) -> Rules {
    let (model, patience) = (BandwidthModel::Mapa2021, Patience::Take);
    Rules { policy, model, patience, first_of_ties, communication }
}

fn at_once(jobs: &[SimJob]) -> Vec<SimJob> {
    jobs.iter().map(|job| SimJob { arrival: 0, ..job.clone() }).collect()
}

/// Bandwidth between all GPUs of a set, GB/s.
fn within(graph: &HardwareGraph, gpus: GpuSet) -> f64 {
    let pairs = gpus.iter().flat_map(|a| gpus.iter().filter(move |b| a < *b).map(move |b| (a, b)));
    pairs.filter_map(|(a, b)| graph.link(a, b)).map(|link| f64::from(link.mb_s) / 1000.0).sum()
}

/// The most that so many GPUs have between them on the idle node.
fn ideal(graph: &HardwareGraph, gpus: usize) -> f64 {
    let sets = crate::search::subsets(graph.len(), gpus);
    let each = sets.map(|mask| {
        let set = crate::search::bits(mask).filter_map(|at| u16::try_from(at).ok().map(geometry::GpuIndex));
        within(graph, set.collect())
    });
    each.fold(0.0, f64::max)
}

fn percent(part: usize, of: usize) -> f64 {
    100.0 * as_f64(part) / as_f64(of.max(1))
}

#[expect(clippy::cast_precision_loss, reason = "counts of jobs")]
fn as_f64(n: usize) -> f64 {
    n as f64
}

/// Fig. 4: the first 100 jobs under baseline.
fn figure_4(graph: &HardwareGraph, jobs: &[SimJob]) -> PaperTable {
    let jobs = at_once(&jobs[..jobs.len().min(100)]);
    let ran = simulate(graph, &jobs, rules(Selection::Baseline, false, None));
    let mut groups = Vec::new();
    for gpus in 2..=5 {
        let best = ideal(graph, gpus);
        let of_size = jobs.iter().zip(&ran).filter(|(job, _)| job.gpus == gpus);
        let parts: Vec<f64> =
            of_size.filter_map(|(_, ran)| Some(within(graph, ran.as_ref()?.choice.gpus) / best)).collect();
        for (least, printed) in [(0.2, 75.0), (0.45, 25.0)] {
            let paper = (gpus == 3).then_some(printed);
            let lose = parts.iter().filter(|part| **part <= 1.0 - least + 1e-9).count();
            let what = format!("{gpus} GPUs, at least {:.0} % less", 100.0 * least);
            let rows = vec![PaperRow::new(what.clone(), paper, percent(lose, parts.len()))];
            groups.push(RowGroup {
                what,
                basis: Basis::Predicted,
                measure: Measure::Points,
                within: 10.0,
                rows,
            });
        }
    }
    PaperTable {
        name: "Figure 4",
        title: "jobs under baseline that lose bandwidth to the best set of the idle node, percent of the jobs of \
                that size"
            .to_owned(),
        groups,
        notes: vec![
            "Bandwidth is that between all GPUs of a set. The paper prints two numbers, both for three GPUs.".to_owned(),
        ],
    }
}

fn sensitive(jobs: &[SimJob], ran: &[Option<Ran>], of: impl Fn(&Ran) -> Option<f64>) -> Option<[f64; 5]> {
    let both = jobs.iter().zip(ran).filter(|(job, _)| job.sensitive);
    quartiles(&both.filter_map(|(_, ran)| of(ran.as_ref()?)).collect::<Vec<_>>())
}

/// Policies with their names, and whether ties go to the first set.
const POLICIES: [(&str, Selection, bool); 4] = [
    ("topo-aware", Selection::TopoAware, false),
    ("greedy, first of ties", Selection::Greedy, true),
    ("greedy", Selection::Greedy, false),
    ("preserve", Selection::Preserve, false),
];

fn figure_13(graph: &HardwareGraph, jobs: &[SimJob]) -> PaperTable {
    let jobs = at_once(jobs);
    let printed = |name: &str| match name {
        "greedy" | "greedy, first of ties" => [Some(12.33), Some(57.85)],
        "preserve" => [None, Some(57.85)],
        _ => [None, None],
    };
    let mut groups = Vec::new();
    for (name, policy, first) in POLICIES {
        let ran = simulate(graph, &jobs, rules(policy, first, None));
        let of = sensitive(&jobs, &ran, |ran| ran.choice.scores.eff_bw).unwrap_or([f64::NAN; 5]);
        for (at, (quartile, paper)) in ["25 %", "median"].into_iter().zip(printed(name)).enumerate() {
            let what = format!("{name}, {quartile}");
            let rows = vec![PaperRow::new(what.clone(), paper, of[at + 1])];
            groups.push(RowGroup {
                what,
                basis: Basis::Predicted,
                measure: Measure::Ratio,
                within: 5.0,
                rows,
            });
        }
    }
    PaperTable {
        name: "Figure 13",
        title: "EffBW of the sensitive jobs by Equation 2, GB/s, 300 jobs at once".to_owned(),
        groups,
        notes: vec![
            "The median is that of Equation 2 for a pair with a double link: any policy that looks for links has it.".to_owned(),
        ],
    }
}

fn cycles(n: u64) -> f64 {
    u32::try_from(n).map_or(f64::NAN, f64::from)
}
