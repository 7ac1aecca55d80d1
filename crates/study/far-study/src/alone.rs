//! Tables 4, 5 and 6: batches on a GPU without instances.

use far::{Micros, Problem, Schedule, far, fix_part, fix_part_best, miso, replay};
use paper_rows::{Basis, Measure, PaperRow, PaperTable, RowGroup};

use crate::generate::{GOOD, MIXED, MemoryBound, NARROW, POOR, WIDE, a100, batch_with};
use crate::printed::{TABLE_4, TABLE_5, TABLE_6};

/// Readings of section 6.3, with their names.
const READINGS: [(MemoryBound, &str); 2] = [(MemoryBound::None, "psup 0"), (MemoryBound::Half, "psup 0.5")];

/// Tasks of the batches of Tables 4 and 9.
pub(crate) const SIZES: [usize; 6] = [10, 15, 20, 25, 30, 35];

/// Tasks that scale alike, by name.
pub(crate) const SHARES: [(&str, [usize; 5]); 3] = [("Poor", POOR), ("Mixed", MIXED), ("Good", GOOD)];

/// A configuration of Tables 5 to 8.
#[derive(Clone, Copy)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) shares: [usize; 5],
    pub(crate) range: (f64, f64),
}

/// The configurations in the order of the paper's rows.
pub(crate) const WORKLOADS: [Workload; 6] = [
    Workload { name: "Poor, Narrow", shares: POOR, range: NARROW },
    Workload { name: "Poor, Wide", shares: POOR, range: WIDE },
    Workload { name: "Mixed, Narrow", shares: MIXED, range: NARROW },
    Workload { name: "Mixed, Wide", shares: MIXED, range: WIDE },
    Workload { name: "Good, Narrow", shares: GOOD, range: NARROW },
    Workload { name: "Good, Wide", shares: GOOD, range: WIDE },
];

/// Makespan of a plan as the independent replay has it, µs; not a number if the replay refuses the plan.
pub(crate) fn replayed(problem: &Problem, schedule: &Schedule) -> f64 {
    replay(problem, schedule).map_or(f64::NAN, |done| as_f64(done.makespan))
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
pub(crate) fn as_f64(n: u64) -> f64 {
    n as f64
}

pub(crate) fn micros(time: Micros) -> f64 {
    as_f64(time)
}

pub(crate) fn mean_of(runs: u64, one: impl FnMut(u64) -> f64) -> f64 {
    (0..runs).map(one).sum::<f64>() / as_f64(runs.max(1))
}

pub(crate) fn table_4(runs: u64) -> PaperTable {
    let group = |(psup, name): (MemoryBound, &str)| {
        let rows = SHARES.iter().zip(TABLE_4).flat_map(|((workload, shares), printed)| {
            SIZES.into_iter().zip(printed).map(move |(n, paper)| {
                let ours = mean_of(runs, |seed| {
                    let problem = a100(batch_with(psup, seed, n, *shares, WIDE));
                    replayed(&problem, &far(&problem).schedule) / micros(problem.baseline())
                });
                PaperRow::new(format!("{workload}, {n} tasks, {name}"), paper, ours)
            })
        });
        let rows = rows.collect();
        RowGroup {
            what: name.to_owned(),
            basis: Basis::Predicted,
            measure: Measure::Ratio,
            within: 2.0,
            rows,
        }
    };
    PaperTable {
        name: "Table 4",
        title: "makespan over the least work (ρ), Wide, policy far".to_owned(),
        groups: READINGS.map(group).to_vec(),
        notes: vec![
            "The paper does not say psup for its tables. Its Figure 11 has 0.5. Table 4 follows from 0: \
             memory-bound tasks make a batch harder than the paper found it. One of two readings was \
             chosen with these 18 numbers in view, and nothing else."
                .to_owned(),
        ],
    }
}

pub(crate) fn table_5(runs: u64) -> PaperTable {
    let strategies = ["MISO-opt", "FixPart(1,...,1)", "FixPartBest", "FixPart(7)"];
    let mut groups = Vec::new();
    for (psup, name) in READINGS {
        let ours = WORKLOADS.map(|workload| strategies_over_far(psup, workload, runs));
        for (at, strategy) in strategies.into_iter().enumerate() {
            let row = |((workload, printed), ours): ((Workload, [f64; 4]), [f64; 4])| {
                PaperRow::new(format!("{strategy}, {}, {name}", workload.name), printed[at], ours[at])
            };
            let rows = WORKLOADS.into_iter().zip(TABLE_5).zip(ours).map(row).collect();
            let what = format!("{strategy}, {name}");
            groups.push(RowGroup {
                what,
                basis: Basis::Predicted,
                measure: Measure::Ratio,
                within: 10.0,
                rows,
            });
        }
    }
    PaperTable {
        name: "Table 5",
        title: "makespan over FAR's, batches of 15 tasks".to_owned(),
        groups,
        notes: vec![TABLE_5_NOTE.to_owned()],
    }
}

const TABLE_5_NOTE: &str = "Table 5 follows from psup 0.5 and not from 0, Table 4 the other way round. No reading of section 6.3 was found that \
                            gives both: tasks that stop scaling once they are compute-bound, as the paper's words for the A30 can be \
                            read, change neither. What is left under 0.5 is not explained: MISO-opt is up to 15 % better than printed \
                            on Mixed and Good, and FixPart(1,...,1) 17 % on Good, Wide.";

/// MISO-opt, FixPart(1,...,1), FixPartBest and FixPart(7) over FAR, means.
fn strategies_over_far(psup: MemoryBound, workload: Workload, runs: u64) -> [f64; 4] {
    let mut sums = [0.0; 4];
    for seed in 0..runs {
        let problem = a100(batch_with(psup, seed, 15, workload.shares, workload.range));
        let all = over_far(&problem);
        sums.iter_mut().zip(all).for_each(|(sum, one)| *sum += one / as_f64(runs));
    }
    sums
}

/// The four strategies of Table 5 over FAR for one batch.
pub(crate) fn over_far(problem: &Problem) -> [f64; 4] {
    let ours = replayed(problem, &far(problem).schedule);
    let partitions = problem.tree.partitions();
    let fixed = |partition: Option<&Vec<usize>>| {
        let plan = partition.and_then(|partition| fix_part(problem, partition).ok());
        plan.map_or(f64::NAN, |fixed| replayed(&fixed.problem, &fixed.schedule) / ours)
    };
    let best = fix_part_best(problem);
    [
        miso(problem).map_or(f64::NAN, |schedule| replayed(problem, &schedule) / ours),
        fixed(partitions.iter().max_by_key(|partition| partition.len())),
        best.map_or(f64::NAN, |fixed| replayed(&fixed.problem, &fixed.schedule) / ours),
        fixed(partitions.iter().min_by_key(|partition| partition.len())),
    ]
}

pub(crate) fn table_6(runs: u64) -> PaperTable {
    let sizes = [10, 20, 30];
    let mut groups: Vec<RowGroup> = Vec::new();
    for what in ["gain, %", "moves", "swaps"] {
        for n in sizes {
            let what = format!("{what}, {n} tasks");
            let rows = Vec::new();
            let (basis, measure) = (Basis::Predicted, Measure::Points);
            groups.push(RowGroup { what, basis, measure, within: 1.0, rows });
        }
    }
    for (workload, printed) in WORKLOADS.into_iter().zip(TABLE_6) {
        for (size, n) in sizes.into_iter().enumerate() {
            let ours = refinement(workload, n, runs);
            for measure in 0..3 {
                let group = &mut groups[measure * sizes.len() + size];
                let label = format!("{}, {}", group.what, workload.name);
                group.rows.push(PaperRow::new(label, printed[size][measure], ours[measure]));
            }
        }
    }
    PaperTable {
        name: "Table 6",
        title: "what refinement gains over phase 2, and its moves and swaps, psup 0".to_owned(),
        groups,
        notes: vec![
            "The authors' own program for phases 1 and 2, replayed, leaves 0.3 to 6 % for refinement; the \
             8 to 15 % that the paper has for 20 and 30 tasks are not there to be won."
                .to_owned(),
        ],
    }
}

/// Gain in percent, moves and swaps, means.
fn refinement(workload: Workload, n: usize, runs: u64) -> [f64; 3] {
    let mut sums = [0.0; 3];
    for seed in 0..runs {
        let problem = a100(batch_with(MemoryBound::None, seed, n, workload.shares, workload.range));
        let plan = far(&problem);
        let gain = 100.0 * (micros(plan.unrefined) / micros(plan.refined) - 1.0);
        let count = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
        let add = [gain, count(plan.operations.moves), count(plan.operations.swaps)];
        sums.iter_mut().zip(add).for_each(|(sum, one)| *sum += one / as_f64(runs));
    }
    sums
}
