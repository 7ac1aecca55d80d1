//! Batches of trainings that were measured on a real A100, in place of the paper's Rodinia kernels, whose times are not public.

use far::{Problem, STEPS_PER_MS, Task, best, far};
use paper_rows::{Basis, Measure, PaperRow, PaperTable, RowGroup};

use crate::alone::{mean_of, micros, over_far, replayed};
use crate::generate::{Numbers, WIDE, a100};
use crate::printed::RODINIA;

const MISO: &str = include_str!("../data/miso.csv");

/// Kernels of the paper's batch.
const TASKS: usize = 16;

/// A training, alone on one instance of an A100 of 40 GB.
#[derive(Clone, Debug, PartialEq)]
pub struct Training {
    /// Model and batch size.
    pub name: String,
    /// Seconds of a step on 1, 2, 3, 4 and 7 slices; `None` if it does not run there.
    pub step_s: [Option<f64>; 5],
}

/// Reads the 32 trainings of `data/miso.csv`.
#[must_use]
pub fn trainings() -> Vec<Training> {
    let read = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let [name, batch, steps @ ..] = &cells[..] else { return None };
        let steps: [&str; 5] = steps.try_into().ok()?;
        let step_s = steps.map(|seconds| seconds.parse().ok());
        Some(Training { name: format!("{name}-{batch}"), step_s })
    };
    MISO.lines().skip(1).filter_map(read).collect()
}

/// Draws a batch of trainings that run on each size. Each does so many steps that one slice needs a time of [`WIDE`].
#[must_use]
pub fn batch_of_trainings(seed: u64, n: usize) -> Vec<Task> {
    let all: Vec<[f64; 5]> = trainings().into_iter().filter_map(|training| whole(training.step_s)).collect();
    let mut numbers = Numbers::new(seed);
    let one = |_| {
        let steps = all[numbers.below(all.len())];
        let longest_s = WIDE.0 + (WIDE.1 - WIDE.0) * numbers.unit();
        let times = steps.map(|step| Some(whole_micros(longest_s * step / steps[0])));
        Task { times: times.to_vec() }
    };
    (0..n).map(one).collect()
}

fn whole(steps: [Option<f64>; 5]) -> Option<[f64; 5]> {
    let [Some(a), Some(b), Some(c), Some(d), Some(e)] = steps else { return None };
    Some([a, b, c, d, e])
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0.001 to 1000 s")]
fn whole_micros(seconds: f64) -> u64 {
    ((seconds * 1e6).round() as u64).max(1)
}

pub(crate) fn figure_12(runs: u64) -> PaperTable {
    // The default policy takes a thousand times as long as FAR.
    let few = runs.min(40);
    let batch = |seed| a100(batch_of_trainings(seed, TASKS));
    let rho = |problem: &Problem| replayed(problem, &far(problem).schedule) / micros(problem.baseline());
    let mut rows = vec![PaperRow::new("ρ of FAR", RODINIA[0], mean_of(runs, |seed| rho(&batch(seed))))];
    let strategies = ["MISO-opt", "FixPart(1,...,1)", "FixPartBest", "FixPart(7)"];
    for (at, (name, paper)) in strategies.into_iter().zip(&RODINIA[1..]).enumerate() {
        let ours = mean_of(runs, |seed| over_far(&batch(seed))[at]);
        rows.push(PaperRow::new(format!("{name} over FAR"), *paper, ours));
    }
    let tessera = mean_of(few, |seed| {
        let problem = batch(seed);
        let plan = best(&problem, 10 * STEPS_PER_MS).schedule;
        replayed(&problem, &plan) / replayed(&problem, &far(&problem).schedule)
    });
    rows.push(PaperRow::new(format!("tessera over FAR, {few} batches"), None, tessera));
    let what = "16 measured tasks".to_owned();
    PaperTable {
        name: "Figure 12",
        title: "sections 6.4.1 and 6.5.1 with trainings measured by MISO in place of Rodinia's kernels"
            .to_owned(),
        groups: vec![RowGroup { what, basis: Basis::Measured, measure: Measure::Ratio, within: 0.0, rows }],
        notes: vec![
            "The times of the paper's 16 kernels are not public. Ours are means over batches of 16 of the 21 \
             trainings that MISO ran on all five sizes of a real A100, 1 to 100 s each on one slice."
                .to_owned(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logs_are_read_whole() {
        let all = trainings();
        assert_eq!(all.len(), 32);
        let runs = |size: usize| all.iter().filter(|training| training.step_s[size].is_some()).count();
        assert_eq!([0, 1, 2, 3, 4].map(runs), [21, 28, 32, 32, 32]);
    }

    /// Half of them take 1.73 times as long on one slice as on two.
    #[test]
    fn a_small_instance_is_slower() {
        let ratio = |training: Training| Some(training.step_s[0]? / training.step_s[1]?);
        let mut all: Vec<f64> = trainings().into_iter().filter_map(ratio).collect();
        all.sort_by(f64::total_cmp);
        assert!((all[all.len() / 2] - 1.73).abs() < 0.01, "{all:?}");
    }
}
