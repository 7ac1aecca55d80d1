//! `tessera lab plan compare`: all policies side by side.

use std::time::Duration;

use far::{Policy, Problem};
use geometry::counted;

use super::args::CompareArgs;
use super::batch::{Batch, seconds};
use super::planned::{Planned, plan, problems, refuse, steps};
use super::tasks;
use crate::outcome::{Failure, Outcome};
use crate::render::table;

/// Sums of one policy over all batches it could plan.
#[derive(Default)]
struct Sums {
    batches: u32,
    makespan: f64,
    ratio: f64,
    rho: f64,
    gap: f64,
    proven: u32,
    operations: usize,
    took: Duration,
}

impl Sums {
    fn add(&mut self, planned: &Planned<'_>, best: f64, problem: &Problem) {
        let makespan = seconds(planned.makespan);
        self.batches += 1;
        self.makespan += makespan;
        self.ratio += makespan / best;
        self.rho += makespan / seconds(problem.baseline());
        self.gap += planned.gap();
        self.proven += u32::from(planned.answer.proven_optimal);
        self.operations += planned.answer.schedule.ops.len();
        self.took += planned.took;
    }

    fn row(&self, policy: &Policy, batches: usize) -> Vec<String> {
        let n = f64::from(self.batches.max(1));
        let mut name = policy.to_string();
        if self.batches == 0 {
            let nothing = std::iter::repeat_n("-".to_owned(), 7);
            return std::iter::once(name).chain(nothing).collect();
        }
        if self.batches as usize != batches {
            name += &format!(" ({} of {batches})", self.batches);
        }
        #[expect(clippy::cast_precision_loss, reason = "a few operations per batch")]
        let operations = self.operations as f64 / n;
        vec![
            name,
            format!("{:.2}", self.makespan / n),
            format!("{:.3}", self.ratio / n),
            format!("{:.3}", self.rho / n),
            format!("{:.1} %", 100.0 * self.gap / n),
            self.proven.to_string(),
            format!("{operations:.0}"),
            format!("{:.3}", self.took.as_secs_f64() * 1e3 / n),
        ]
    }
}

/// The policies compared: all of them, with the partitions at both ends as fixed ones.
fn policies(problem: &Problem) -> Vec<Policy> {
    let partitions = problem.tree.partitions();
    let sizes = |p: &Vec<usize>| Policy::FixPart(p.iter().map(|&n| problem.tree.nodes[n].size).collect());
    let most = partitions.iter().max_by_key(|p| p.len()).map(sizes);
    let whole = partitions.iter().min_by_key(|p| p.len()).map(sizes);
    let named = [Policy::Tessera, Policy::Far, Policy::Miso, Policy::FixPartBest];
    named.into_iter().chain(most).chain(whole).collect()
}

pub(super) fn run(args: &CompareArgs) -> Result<Outcome, Failure> {
    let batches = tasks::of_file(&args.tasks, args.gpu.model()?)?;
    let problems = problems(&batches, &args.tasks, args.gpu.count(), args.search.times.as_deref())?;
    compared(&batches, &problems, steps(args.search.budget)).map(Outcome::ok)
}

/// Makes a row per policy, with its means over the batches.
fn compared(batches: &[Batch], problems: &[Problem], steps: u64) -> Result<String, Failure> {
    let Some(first) = problems.first() else { return Ok(String::new()) };
    if batches.iter().any(|b| b.model.key != batches[0].model.key) {
        return Err(Failure::new("cannot compare: the batches are for different GPU models")
            .hint("give --gpu, or one file per model"));
    }
    let policies = policies(first);
    let mut sums: Vec<Sums> = policies.iter().map(|_| Sums::default()).collect();
    for (batch, problem) in batches.iter().zip(problems) {
        let mut best = f64::NAN;
        for (policy, sums) in policies.iter().zip(&mut sums) {
            match plan(batch, problem, policy, steps) {
                Ok(planned) => {
                    // The first policy is the default one, which plans every batch.
                    if best.is_nan() {
                        best = seconds(planned.makespan);
                    }
                    sums.add(&planned, best, problem);
                }
                Err(e) if *policy == Policy::Tessera => return Err(refuse(batch, &e)),
                // A partition without a size some task needs has no plan: the row says for how many it has.
                Err(_) => {}
            }
        }
    }
    let heads = [
        "policy",
        "makespan s",
        "of tessera",
        "of baseline",
        "gap at most",
        "proven",
        "operations",
        "plan ms",
    ];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(policies.iter().zip(&sums).map(|(p, s)| s.row(p, batches.len())));
    let tasks: usize = batches.iter().map(|b| b.tasks.len()).sum();
    let what = match batches {
        [one] => format!("{}: {}", one.id, counted(tasks, "job")),
        _ => format!("{} batches, {}; means per batch", batches.len(), counted(tasks, "job")),
    };
    let gpus = first.gpus.len();
    let title = format!("{what}; {gpus} x {}\n\n", batches[0].model.key);
    Ok(title + &table::render(&rows, &[1, 2, 3, 4, 5, 6, 7]))
}
