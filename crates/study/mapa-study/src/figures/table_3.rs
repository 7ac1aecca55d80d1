//! Table 3: what the policies gain over baseline, and Preserve over Greedy.

use paper_rows::{Basis, Measure, PaperRow, PaperTable, RowGroup};
use topology::{HardwareGraph, Selection};

use super::{COMMUNICATION, POLICIES, at_once, cycles, rules, sensitive};
use crate::simulator::{SimJob, simulate};

/// Table 3 of the paper: speed-up over baseline at 25, 50, 75 and 100 % of the run times, and of the throughput.
const TABLE_3: [(&str, [f64; 5]); 3] = [
    ("topo-aware", [1.029, 1.385, 1.014, 1.075, 1.07]),
    ("greedy", [1.059, 1.519, 1.048, 1.319, 1.08]),
    ("preserve", [1.057, 1.119, 1.124, 1.352, 1.12]),
];

pub(super) fn table_3(graph: &HardwareGraph, jobs: &[SimJob]) -> PaperTable {
    let jobs = at_once(jobs);
    let times = |policy, first| {
        let ran = simulate(graph, &jobs, rules(policy, first, Some(COMMUNICATION)));
        let run = sensitive(&jobs, &ran, |ran| Some(cycles(ran.end - ran.start))).unwrap_or([f64::NAN; 5]);
        let end = ran.iter().flatten().map(|ran| ran.end).max().unwrap_or(0);
        [run[1], run[2], run[3], run[4], cycles(end)]
    };
    let base = times(Selection::Baseline, false);
    let columns = ["25 %", "50 %", "75 %", "max", "throughput"];
    let all: Vec<[f64; 5]> = POLICIES
        .iter()
        .map(|(_, policy, first)| {
            let times = times(*policy, *first);
            std::array::from_fn(|at| base[at] / times[at])
        })
        .collect();
    let mut groups = Vec::new();
    for (at, column) in columns.into_iter().enumerate() {
        let row = |((name, ..), ours): (&(&str, Selection, bool), &[f64; 5])| {
            let paper = TABLE_3.iter().find(|(known, _)| known == name).map(|(_, printed)| printed[at]);
            PaperRow::new(format!("{name}, {column}"), paper, ours[at])
        };
        let rows = POLICIES.iter().zip(&all).map(row).collect();
        let what = column.to_owned();
        groups.push(RowGroup { what, basis: Basis::Predicted, measure: Measure::Ratio, within: 10.0, rows });
    }
    let over = |at: usize| TABLE_3[2].1[at] / TABLE_3[1].1[at];
    for (what, at) in [("preserve over greedy, 75 %", 2), ("preserve over greedy, throughput", 4)] {
        let rows = vec![PaperRow::new(what, over(at), all[3][at] / all[2][at])];
        // A prediction that misses by as much as the whole effect has missed.
        let within = 50.0 * over(at).ln();
        let (what, basis, measure) = (what.to_owned(), Basis::Predicted, Measure::Ratio);
        groups.push(RowGroup { what, basis, measure, within, rows });
    }
    PaperTable {
        name: "Table 3",
        title: "speed-up over baseline on a DGX-1V, 300 jobs at once".to_owned(),
        groups,
        notes: vec![TABLE_3_NOTE.to_owned()],
    }
}

const TABLE_3_NOTE: &str = "The paper's point is the distance between its last two rows, and ours has none: *greedy* here breaks ties by the links that it \
                            leaves to others, which is half of what Preserve does. *First of ties* is greedy as MAPA's program has it; \
                            then Preserve gains 1.5 % of throughput and 70 % at the maximum, and still nothing at 75 %. The queue hides the rest: \
                            all jobs are there at once and start in their order, so that a job finds what the one before it left, and \
                            nobody has a choice. The paper's 25 % of greedy (12.33, a set without NVLink) does not come about either way.";
