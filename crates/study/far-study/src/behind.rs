//! Tables 7, 8 and 9: batches behind one another.

use far::{Micros, Problem, far};
use paper_rows::{Basis, Measure, PaperRow, PaperTable, RowGroup};

use crate::alone::{SHARES, SIZES, WORKLOADS, Workload, as_f64, micros, replayed};
use crate::generate::{MemoryBound, WIDE, a100, batch_with};
use crate::printed::{TABLE_7, TABLE_8, TABLE_9};

const SIZES_OF_PAIRS: [usize; 3] = [10, 20, 30];

fn draw(workload: Workload, seed: u64, n: usize) -> Vec<far::Task> {
    batch_with(MemoryBound::None, seed, n, workload.shares, workload.range)
}

/// Two columns for each number of tasks, one group for each column.
fn two_columns(
    names: [&str; 2],
    printed: [[[f64; 2]; 3]; 6],
    of: impl Fn(Workload, usize) -> [f64; 2],
) -> Vec<RowGroup> {
    let mut groups = Vec::new();
    for (size, n) in SIZES_OF_PAIRS.into_iter().enumerate() {
        let ours = WORKLOADS.map(|workload| of(workload, n));
        for (column, name) in names.into_iter().enumerate() {
            let what = format!("{name}, {n} tasks");
            let row = |((workload, printed), ours): ((Workload, [[f64; 2]; 3]), [f64; 2])| {
                PaperRow::new(format!("{what}, {}", workload.name), printed[size][column], ours[column])
            };
            let rows = WORKLOADS.into_iter().zip(printed).zip(ours).map(row).collect();
            let (basis, measure) = (Basis::Predicted, Measure::Points);
            groups.push(RowGroup { what, basis, measure, within: 1.0, rows });
        }
    }
    groups
}

pub(crate) fn table_7(runs: u64) -> PaperTable {
    let gains = |workload: Workload, n: usize| {
        let mut sums = [0.0; 2];
        for seed in 0..runs {
            let first = a100(draw(workload, 2 * seed, n));
            let tasks = draw(workload, 2 * seed + 1, n);
            let before = far(&first).schedule;
            let (next, waits) =
                (first.then(&before, 0, tasks.clone()), first.then(&before, before.makespan(), tasks));
            let trivial = replayed(&waits, &far(&waits).schedule);
            let plan = far(&next);
            let ends = [micros(plan.overlap.turned), replayed(&next, &plan.schedule)];
            sums.iter_mut()
                .zip(ends)
                .for_each(|(sum, end)| *sum += 100.0 * (trivial / end - 1.0) / as_f64(runs));
        }
        sums
    };
    PaperTable {
        name: "Table 7",
        title: "gain over waiting for the batch before, percent of both batches' makespan, psup 0".to_owned(),
        groups: two_columns(["reversed", "with moves and swaps"], TABLE_7, gains),
        notes: vec![
            "Every place of ours begins on its own; in the paper a schedule is shifted as a whole. That takes \
             most of what its moves and swaps win for ten tasks, and does not explain all of it."
                .to_owned(),
        ],
    }
}

pub(crate) fn table_8(runs: u64) -> PaperTable {
    let operations = |workload: Workload, n: usize| {
        let mut problem = a100(draw(workload, 0, n));
        let mut schedule = far(&problem).schedule;
        let mut sums = [0.0; 2];
        for seed in 1..=runs {
            problem = problem.then(&schedule, 0, draw(workload, seed, n));
            let plan = far(&problem);
            let counts = [plan.overlap.operations.moves, plan.overlap.operations.swaps];
            let count = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
            sums.iter_mut().zip(counts).for_each(|(sum, n)| *sum += count(n) / as_f64(runs));
            schedule = plan.schedule;
        }
        sums
    };
    PaperTable {
        name: "Table 8",
        title: "moves and swaps of a concatenation, psup 0".to_owned(),
        groups: two_columns(["moves", "swaps"], TABLE_8, operations),
        notes: Vec::new(),
    }
}

pub(crate) fn table_9(runs: u64) -> PaperTable {
    let rows = SHARES.iter().zip(TABLE_9).flat_map(|((name, shares), printed)| {
        SIZES.into_iter().zip(printed).map(move |(n, paper)| {
            let workload = Workload { name, shares: *shares, range: WIDE };
            PaperRow::new(format!("{name}, {n} tasks"), paper, in_a_row(workload, n, runs))
        })
    });
    let rows = rows.collect();
    let what = "percent above the least work".to_owned();
    PaperTable {
        name: "Table 9",
        title: "batches in a row over the least work of all their tasks, percent more, psup 0".to_owned(),
        groups: vec![RowGroup {
            what,
            basis: Basis::Predicted,
            measure: Measure::Points,
            within: 10.0,
            rows,
        }],
        notes: vec![
            "Not explained. All batches are there from the beginning, and one batch alone is 2 to 20 % above its \
             least work (Table 4); nothing in the paper makes a chain of them wait as long as it works. A \
             baseline over half of the batches would give such numbers."
                .to_owned(),
        ],
    }
}

fn in_a_row(workload: Workload, n: usize, more: u64) -> f64 {
    let mut problem: Problem = a100(draw(workload, 0, n));
    let mut least: Micros = problem.baseline();
    let mut schedule = far(&problem).schedule;
    for seed in 1..=more {
        let tasks = draw(workload, seed, n);
        least += a100(tasks.clone()).baseline();
        problem = problem.then(&schedule, 0, tasks);
        schedule = far(&problem).schedule;
    }
    100.0 * (replayed(&problem, &schedule) / micros(least) - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_batches_ends_soon_after_its_least_work() {
        let more = in_a_row(WORKLOADS[3], 20, 10);
        assert!((0.0..15.0).contains(&more), "{more}");
    }
}
