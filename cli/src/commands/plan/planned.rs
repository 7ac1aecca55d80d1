//! Makes a batch's plan, and replays it.

use std::path::Path;
use std::time::{Duration, Instant};

use ::far;
use far::{Answer, Micros, Policy, PolicyError, Problem, STEPS_PER_MS};

use super::batch::{Batch, seconds};
use super::csv::read_costs;
use crate::outcome::Failure;

/// A batch's plan, replayed.
pub(super) struct Planned<'a> {
    pub(super) batch: &'a Batch,
    pub(super) policy: Policy,
    pub(super) answer: Answer,
    /// By the replay, µs.
    pub(super) makespan: Micros,
    pub(super) took: Duration,
}

/// Plans each batch of a file: its jobs on `gpus` empty GPUs of its model. `times` is a file of
/// reconfiguration times.
pub(super) fn problems(
    batches: &[Batch],
    file: &Path,
    gpus: usize,
    times: Option<&Path>,
) -> Result<Vec<Problem>, Failure> {
    let problem = |batch: &Batch| {
        let mut problem = Problem::new(batch.model, gpus, batch.far_tasks(0))
            .map_err(|e| Failure::new(format!("{}: {}: {e}", file.display(), batch.id)))?;
        if let Some(path) = times {
            read_costs(path, batch.model, &problem.tree.sizes, &mut problem.costs)?;
        }
        Ok(problem)
    };
    batches.iter().map(problem).collect()
}

/// The steps of the default policy's search that take about this long.
pub(super) fn steps(budget: Duration) -> u64 {
    u64::try_from(budget.as_millis()).unwrap_or(u64::MAX).saturating_mul(STEPS_PER_MS)
}

pub(super) fn refuse(batch: &Batch, error: &PolicyError) -> Failure {
    Failure::new(format!("{}: {error}", batch.id))
}

/// Plans and replays. A plan that does not replay is a bug of ours, and no plan.
pub(super) fn plan<'a>(
    batch: &'a Batch,
    problem: &Problem,
    policy: &Policy,
    steps: u64,
) -> Result<Planned<'a>, PolicyError> {
    let begin = Instant::now();
    let answer = far::plan(problem, policy, steps)?;
    let took = begin.elapsed();
    let makespan = match far::replay(&answer.problem, &answer.schedule) {
        Ok(replay) => replay.makespan,
        Err(violation) => panic!("batch {}, policy {policy}: {violation}", batch.id),
    };
    Ok(Planned { batch, policy: policy.clone(), answer, makespan, took })
}

/// GPU and tree node of each instance that exists from the beginning.
pub(super) fn given(problem: &Problem) -> impl Iterator<Item = (usize, usize)> + '_ {
    problem.gpus.iter().enumerate().flat_map(|(g, now)| now.held.iter().map(move |h| (g, h.node)))
}

impl Planned<'_> {
    pub(super) fn name(&self, task: usize) -> String {
        self.batch.name(task)
    }

    /// How far the plan can be from the best, as a share of the bound.
    pub(super) fn gap(&self) -> f64 {
        seconds(self.makespan) / seconds(self.answer.lower_bound.max(1)) - 1.0
    }
}
