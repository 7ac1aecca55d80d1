//! The rows of the paper's figures.

use power::{Basis, Cap};
use power_study::{Judged, Model, Problem, Question, evaluate, features, fit};
use serde::Serialize;

use super::world::{CAPS, Case, GPU, STATES, World};
use crate::options;
use crate::outcome::Failure;

/// Figures that have rows.
pub(super) const FIGURES: [u8; 9] = [4, 5, 6, 8, 9, 10, 11, 12, 13];

/// The name of the rows that hold geometric means.
pub(super) const GEOMEAN: &str = "geomean";

/// α of Figures 9 and 10, and both of Figures 11 and 12.
const ALPHAS: [f64; 2] = [0.20, 0.42];

/// A value of a figure. In Figures 4, 5, 6 and 8 nothing is chosen: `worst` and `best` are the one measured value, and
/// `proposal` is what the model predicts, where the figure has that.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) figure: u8,
    pub(super) workload: String,
    pub(super) alpha: Option<f64>,
    pub(super) cap_w: Option<u32>,
    pub(super) worst: Option<f64>,
    pub(super) proposal: Option<f64>,
    pub(super) best: Option<f64>,
    pub(super) state: Option<String>,
    pub(super) violates: Option<bool>,
    /// Quantity of the values: rperf, throughput, fairness, efficiency or `cap_w`.
    pub(super) metric: &'static str,
}

/// The rule that is judged.
pub(super) struct Rule {
    pub(super) model: Model,
    pub(super) guard: bool,
}

/// Fits to all runs.
pub(super) fn fitted(world: &World, basis: Basis) -> Result<Model, Failure> {
    fit(options::gpu_model(GPU)?, &world.counters, &world.runs, basis).map_err(|e| Failure::of(&e))
}

/// All rows of one figure.
pub(super) fn rows(world: &World, rule: &Rule, figure: u8) -> Result<Vec<Row>, Failure> {
    match figure {
        4 => scaling(world, figure, &[250], &["g", "c"]),
        5 => scaling(world, figure, &CAPS, &["c"]),
        6 => throughputs(world),
        8 => accuracy(world, rule),
        9 => problem_1(world, rule, figure, 230),
        10 => joined(CAPS.into_iter().map(|watts| problem_1(world, rule, figure, watts))),
        11 => joined(ALPHAS.into_iter().map(|alpha| problem_2(world, rule, figure, alpha))),
        12 => joined(ALPHAS.into_iter().map(|alpha| caps(world, rule, alpha))),
        13 => joined((20..=42).step_by(2).map(|a| problem_2(world, rule, figure, f64::from(a) / 100.0))),
        _ => Err(Failure::new(format!("no figure {figure} to simulate")).hint("4, 5, 6 or 8 to 13")),
    }
}

fn joined(parts: impl Iterator<Item = Result<Vec<Row>, Failure>>) -> Result<Vec<Row>, Failure> {
    Ok(parts.collect::<Result<Vec<_>, _>>()?.concat())
}

fn measured(figure: u8, workload: &str, watts: u32, state: &str, metric: &'static str, value: f64) -> Row {
    Row {
        figure,
        workload: workload.to_owned(),
        alpha: None,
        cap_w: Some(watts),
        worst: Some(value),
        proposal: None,
        best: Some(value),
        state: Some(state.to_owned()),
        violates: None,
        metric,
    }
}

/// Figures 4 and 5: one application on 1, 2, 3, 4 and 7 GPCs.
fn scaling(world: &World, figure: u8, caps: &[u32], kinds: &[&str]) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for app in ["kmeans", "stream", "dgemm", "hgemm"] {
        for (kind, watts) in kinds.iter().flat_map(|kind| caps.iter().map(move |watts| (kind, *watts))) {
            for gpcs in [1, 2, 3, 4, 7] {
                let state = format!("{gpcs}{kind}");
                let truth = world.truth(&state, watts, &[app])?;
                rows.push(measured(figure, app, watts, &state, "rperf", truth.rperf[0]));
            }
        }
    }
    Ok(rows)
}

/// Figure 6. What it calls CI-US1 is CI-US2 of Table 8.
fn throughputs(world: &World) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (name, apps) in [("TI-MI2", ["igemm4", "stream"]), ("CI-US2", ["dgemm", "dwt2d"])] {
        for state in STATES {
            let truth = world.truth(state, 250, &apps)?;
            rows.push(measured(6, name, 250, state, "throughput", truth.rperf.iter().sum()));
        }
    }
    Ok(rows)
}

/// Figure 8: measured and predicted.
fn accuracy(world: &World, rule: &Rule) -> Result<Vec<Row>, Failure> {
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let mut rows = Vec::new();
    for case in &world.cases {
        let features = features(&rule.model, &world.counters, &case.apps).map_err(|e| Failure::of(&e))?;
        for truth in case.truths.iter().filter(|truth| truth.cap.watts() == 250) {
            let Some(predicted) = rule.model.predict(&truth.state, truth.cap, &features) else { continue };
            let (name, state) = (case.workload.name, truth.state.to_string());
            let row = |metric, value, predicted| Row {
                proposal: Some(predicted),
                ..measured(8, name, 250, &state, metric, value)
            };
            rows.push(row("throughput", truth.rperf.iter().sum(), predicted.iter().sum()));
            rows.push(row("fairness", least(&truth.rperf), least(&predicted)));
        }
    }
    Ok(rows)
}

/// Figures 9 and 10.
fn problem_1(world: &World, rule: &Rule, figure: u8, watts: u32) -> Result<Vec<Row>, Failure> {
    let cap = Cap::new(watts).map_err(|e| Failure::of(&e))?;
    let all = judged(world, rule, Problem::Throughput(cap), ALPHAS[0])?;
    let of = |judged: &Judged| judged.value;
    Ok(with_geomean(rows_of(figure, &all, ALPHAS[0], Some(watts), "throughput", of)))
}

/// Figures 11 and 13.
fn problem_2(world: &World, rule: &Rule, figure: u8, alpha: f64) -> Result<Vec<Row>, Failure> {
    let all = judged(world, rule, Problem::Efficiency, alpha)?;
    Ok(with_geomean(rows_of(figure, &all, alpha, None, "efficiency", |judged| judged.value)))
}

/// Figure 12.
fn caps(world: &World, rule: &Rule, alpha: f64) -> Result<Vec<Row>, Failure> {
    let all = judged(world, rule, Problem::Efficiency, alpha)?;
    Ok(rows_of(12, &all, alpha, None, "cap_w", |judged| f64::from(judged.cap.watts())))
}

type Named<'w> = (&'w Case, power_study::Verdict);

fn judged<'w>(
    world: &'w World,
    rule: &Rule,
    problem: Problem,
    alpha: f64,
) -> Result<Vec<Named<'w>>, Failure> {
    let one = |case: &'w Case| {
        let features = features(&rule.model, &world.counters, &case.apps).map_err(|e| Failure::of(&e))?;
        let question = Question { apps: &case.apps, features: &features, problem, alpha, guard: rule.guard };
        let verdict = evaluate(&rule.model, &question, &case.truths).map_err(|e| Failure::of(&e))?;
        Ok((case, verdict))
    };
    world.cases.iter().map(one).collect()
}

fn rows_of(
    figure: u8,
    all: &[Named<'_>],
    alpha: f64,
    cap_w: Option<u32>,
    metric: &'static str,
    value: impl Fn(&Judged) -> f64,
) -> Vec<Row> {
    let row = |(case, verdict): &Named<'_>| {
        let of = |judged: &Option<Judged>| judged.as_ref().map(&value);
        let proposal = verdict.proposal.as_ref();
        Row {
            figure,
            workload: case.workload.name.to_owned(),
            alpha: Some(alpha),
            cap_w: cap_w.or_else(|| proposal.map(|p| p.cap.watts())),
            worst: of(&verdict.worst),
            proposal: of(&verdict.proposal),
            best: of(&verdict.best),
            state: proposal.map(|p| p.state.to_string()),
            violates: Some(verdict.violation(alpha).is_some()),
            metric,
        }
    };
    all.iter().map(row).collect()
}

/// Adds the geometric means over the workloads that have all three values.
fn with_geomean(mut rows: Vec<Row>) -> Vec<Row> {
    let whole: Vec<[f64; 3]> =
        rows.iter().filter_map(|row| Some([row.worst?, row.proposal?, row.best?])).collect();
    let mean = |at: usize| geomean(whole.iter().map(|values| values[at]));
    let [worst, proposal, best] = [0, 1, 2].map(mean);
    let violates = Some(rows.iter().any(|row| row.violates == Some(true)));
    if let Some(first) = rows.first().cloned() {
        let cap_w = first.cap_w.filter(|_| rows.iter().all(|row| row.cap_w == first.cap_w));
        let state = None;
        rows.push(Row {
            workload: GEOMEAN.to_owned(),
            worst,
            proposal,
            best,
            state,
            violates,
            cap_w,
            ..first
        });
    }
    rows
}

/// `None` of nothing.
pub(super) fn geomean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value.ln(), count + 1.0));
    (count > 0.0).then(|| (sum / count).exp())
}
