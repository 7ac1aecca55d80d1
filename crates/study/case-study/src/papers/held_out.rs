//! Values that the artefact keeps and the paper does not print, and absolute times.

use paper_rows::{Basis, Measure, PaperRow, PaperTable, RowGroup};

use crate::figures::{MACHINES, MIXES, case, cg_without_crash, mean, sa};
use crate::mix::{K80_MIXES, Machine, rodinia};
use crate::sim::Stuck;

/// CASE's slowdowns of W1 to W8 over single assignment, percent: kernels, then copies, on P100 and V100. Source:
/// rudyjantz/GPU-Sched de384ca, `Tools/plotting/inputs/2020-08-13-{4pm,v100}_gpu_slowdown.in`.
const SLOWDOWNS: [[[f64; 8]; 2]; 2] = [
    [
        [6.204, 47.155, 0.196, 2.155, 9.717, 23.109, 11.055, 11.227],
        [69.056, 61.309, 11.263, 38.684, 13.943, 23.688, 8.209, 36.049],
    ],
    [
        [3.806, 4.719, 7.941, 3.730, 1.481, 10.979, 6.136, 2.151],
        [9.360, -1.269, 6.218, 21.640, 12.858, 8.803, 10.778, 7.436],
    ],
];

/// Throughput of CG and CASE over single assignment on a K80, by [`K80_MIXES`]. Source: the same, `2020-08-06-throughput.in`.
const K80: [[f64; 4]; 2] = [[2.792, 2.098, 2.837, 2.349], [3.883, 3.764, 2.517, 2.450]];

/// Section 5.2.4: mean seconds from arrival to end, P100 and V100.
const COMPLETION: [f64; 2] = [236.0, 122.0];

fn group(what: &str, basis: Basis, measure: Measure, within: f64, rows: Vec<PaperRow>) -> RowGroup {
    RowGroup { what: what.to_owned(), basis, measure, within, rows }
}

pub(super) fn slowdowns() -> Result<PaperTable, Stuck> {
    let (mut means, mut groups) = (Vec::new(), Vec::new());
    for ((machine, name), [kernels, copies]) in MACHINES.into_iter().zip(SLOWDOWNS) {
        let mut rows = Vec::new();
        let (mut ours, mut both) = (Vec::new(), Vec::new());
        for ((mix, kernels), copies) in MIXES.into_iter().zip(kernels).zip(copies) {
            let percent = 100.0 * case(machine, &rodinia(mix, machine))?.summary.slowdown_mean;
            let printed = f64::midpoint(kernels, copies);
            rows.push(PaperRow::new(format!("{mix} {name}"), printed, percent));
            ours.push(percent);
            both.push(printed);
        }
        means.push(PaperRow::new(format!("mean {name}"), mean(&both), mean(&ours)));
        groups.push(group(&format!("mixes on {name}"), Basis::Predicted, Measure::Points, 10.0, rows));
    }
    groups.insert(0, group("means", Basis::Fitted, Measure::Points, 1.0, means));
    Ok(PaperTable {
        name: "Slowdowns of the artefact",
        title: "tasks under CASE over single assignment, percent; the artefact's is the mean of kernels and copies".to_owned(),
        groups,
        notes: Vec::new(),
    })
}

pub(super) fn completion() -> Result<PaperTable, Stuck> {
    let mut rows = Vec::new();
    for ((machine, name), paper) in MACHINES.into_iter().zip(COMPLETION) {
        let mut seconds = Vec::new();
        for mix in MIXES {
            seconds.push(case(machine, &rodinia(mix, machine))?.summary.turnaround_mean);
        }
        rows.push(PaperRow::new(format!("mean on {name}"), paper, mean(&seconds)));
    }
    Ok(PaperTable {
        name: "Section 5.2.4",
        title: "mean seconds from arrival to end under CASE".to_owned(),
        groups: vec![group("completion", Basis::Predicted, Measure::Ratio, 15.0, rows)],
        notes: vec![
            "The paper's seconds do not fit its own Table 7: single assignment ends 16 to 32 jobs after 280 s on the P100 and \
             148 s on the V100 on average, and CASE is twice as fast. A mean of all jobs cannot be that late."
                .to_owned(),
        ],
    })
}

pub(super) fn k80() -> Result<PaperTable, Stuck> {
    let mut groups = Vec::new();
    for (policy, printed) in ["cg", "case"].into_iter().zip(K80) {
        let mut rows = Vec::new();
        for (mix, paper) in K80_MIXES.into_iter().zip(printed) {
            let jobs = rodinia(mix, Machine::K80);
            let run = match policy {
                "cg" => cg_without_crash(Machine::K80, &jobs)?,
                _ => case(Machine::K80, &jobs)?,
            };
            let ours = run.versus(&sa(Machine::K80, &jobs)?).throughput.unwrap_or(f64::NAN);
            rows.push(PaperRow::new(format!("{mix} {policy} k80"), paper, ours));
        }
        groups.push(group(&format!("{policy} on K80"), Basis::Predicted, Measure::Ratio, 15.0, rows));
    }
    Ok(PaperTable {
        name: "Held out: K80",
        title: "throughput over single assignment, runs of the artefact that the paper does not print".to_owned(),
        groups,
        notes: vec![
            "Nothing was fitted to these. Jobs take what they take on a P100, times a number that cancels; a K80 is taken as two \
             GPUs of 12 GiB with five workers each. The two small mixes have programs of unknown time."
                .to_owned(),
        ],
    })
}
