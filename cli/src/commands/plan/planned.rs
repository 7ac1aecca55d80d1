//! A batch's plan: made, and replayed.

use std::time::{Duration, Instant};

use placement::far::{self, Answer, Micros, Policy, PolicyError, Problem, STEPS_PER_MS};

use super::batch::{Batch, seconds};
use crate::outcome::Failure;

/// A batch's plan, replayed.
pub(super) struct Planned<'a> {
    pub(super) batch: &'a Batch,
    pub(super) policy: Policy,
    pub(super) answer: Answer,
    /// As the replay says, µs.
    pub(super) makespan: Micros,
    pub(super) took: Duration,
}

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

/// Whether an instance was there from the beginning.
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
