//! How often a promise is broken, and what keeping it costs.

use power::{Basis, Cap};
use power_study::{ChooseError, Model, Problem, Question, Run, Verdict, evaluate, features, fit};
use serde::Serialize;

use super::figures::geomean;
use super::world::{Case, GPU, World};
use crate::options;
use crate::outcome::Failure;

const ALPHAS: [f64; 3] = [0.20, 0.35, 0.42];

/// The 18 workloads under one rule. A workload that is not chosen for is refused, because its counters are outside the
/// calibrated range, or has no allowed candidate.
#[derive(Serialize)]
pub(super) struct Kept {
    pub(super) basis: &'static str,
    /// True if no run of the workload's applications was in the fit.
    pub(super) unseen: bool,
    pub(super) guard: bool,
    pub(super) problem: u8,
    pub(super) alpha: f64,
    /// Workloads with a candidate that keeps the promise.
    pub(super) possible: usize,
    pub(super) refused: usize,
    pub(super) chosen: usize,
    pub(super) violations: usize,
    /// By how much the worst violation falls below alpha.
    pub(super) deepest: f64,
    /// Geometric mean of chosen over best, of the choices that keep the promise.
    pub(super) of_best: Option<f64>,
}

/// A model for each workload.
struct Setting<'w> {
    basis: Basis,
    unseen: bool,
    models: Vec<(&'w Case, Model)>,
}

/// Every combination of basis, seen or unseen, guard, problem and alpha. `whole` is the paper's model of all runs.
///
/// What was measured is not predicted, so with the guard a workload that was seen cannot be broken but by the error of
/// the measurement: the guard is judged on unseen applications, the plain rule on both.
pub(super) fn all(world: &World, whole: &Model) -> Result<Vec<Kept>, Failure> {
    let cap = Cap::new(230).map_err(|e| Failure::of(&e))?;
    let seen = world.cases.iter().map(|case| (case, whole.clone())).collect();
    let settings = [
        Setting { basis: Basis::Arima2022, unseen: false, models: seen },
        unseen(world, Basis::Arima2022)?,
        unseen(world, Basis::Tessera)?,
    ];
    let mut kept = Vec::new();
    for setting in &settings {
        for problem in [Problem::Throughput(cap), Problem::Efficiency] {
            for alpha in ALPHAS {
                kept.push(of(world, setting, problem, alpha, false)?);
                if setting.unseen {
                    kept.push(of(world, setting, problem, alpha, true)?);
                }
            }
        }
    }
    Ok(kept)
}

fn unseen<'w>(world: &'w World, basis: Basis) -> Result<Setting<'w>, Failure> {
    let gpu = options::gpu_model(GPU)?;
    let model = |case: &'w Case| {
        let apps = &case.apps;
        let free = |run: &&Run| !run.apps.iter().any(|app| apps.contains(app));
        let runs: Vec<Run> = world.runs.iter().filter(free).cloned().collect();
        Ok((case, fit(gpu, &world.counters, &runs, basis).map_err(|e| Failure::of(&e))?))
    };
    let models = world.cases.iter().map(model).collect::<Result<_, Failure>>()?;
    Ok(Setting { basis, unseen: true, models })
}

fn of(
    world: &World,
    setting: &Setting<'_>,
    problem: Problem,
    alpha: f64,
    guard: bool,
) -> Result<Kept, Failure> {
    let mut kept = Kept {
        basis: setting.basis.name(),
        unseen: setting.unseen,
        guard,
        problem: problem.number(),
        alpha,
        possible: 0,
        refused: 0,
        chosen: 0,
        violations: 0,
        deepest: 0.0,
        of_best: None,
    };
    let mut shares = Vec::new();
    for (case, model) in &setting.models {
        let features = features(model, &world.counters, &case.apps).map_err(|e| Failure::of(&e))?;
        let question = Question { apps: &case.apps, features: &features, problem, alpha, guard };
        match evaluate(model, &question, &case.truths) {
            Ok(verdict) => count(&mut kept, &mut shares, &verdict),
            Err(ChooseError::OutOfRange { .. }) => kept.refused += 1,
            Err(e) => return Err(Failure::of(&e)),
        }
    }
    kept.of_best = geomean(shares.into_iter());
    Ok(kept)
}

fn count(kept: &mut Kept, shares: &mut Vec<f64>, verdict: &Verdict) {
    kept.possible += usize::from(verdict.best.is_some());
    let Some(proposal) = &verdict.proposal else { return };
    kept.chosen += 1;
    if let Some(depth) = verdict.violation(kept.alpha) {
        kept.violations += 1;
        kept.deepest = kept.deepest.max(depth);
    } else if let Some(best) = &verdict.best {
        shares.push(proposal.value / best.value);
    }
}
