//! Problems 1 and 2: the state, and the power cap, that a model chooses.
//!
//! # Approach
//!
//! Every calibrated state, and for Problem 2 every calibrated cap, is weighed: 24 candidates for two applications on an
//! A100. A candidate is allowed if every application keeps more than α. Of the allowed ones the best is chosen.
//!
//! With the guard on, α is compared with a cautious value of RPerf: the prediction less the excess that 95 of 100
//! predictions for unseen applications stayed below. A combination that was measured is not predicted.
//!
//! Source: Arima et al., section 4.2. The guard is ours: without it, Problem 2 violates a high α, because it takes the
//! least cap that the model thinks is allowed.

use std::cmp::Ordering;

use crate::cap::Cap;
use crate::counters::{CounterTable, Features, ProfileError};
use crate::field::Field;
use crate::model::{Model, OutOfRange, sorted};
use crate::part::{Part, State};
use crate::runs::Run;

/// What to optimize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Problem 1: the highest throughput under this cap.
    Throughput(Cap),
    /// Problem 2: the highest throughput per watt of the cap.
    Efficiency,
}

impl Problem {
    /// Its number in the paper.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Throughput(_) => 1,
            Self::Efficiency => 2,
        }
    }
}

/// Applications for one GPU, and what they are promised.
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    /// Names of the applications, two or more.
    pub apps: &'q [String],
    /// Their counters, in the same order.
    pub features: &'q [Features],
    /// What to optimize.
    pub problem: Problem,
    /// Each application keeps more than this part of its performance alone; at least 0.
    pub alpha: f64,
    /// Whether α holds for the cautious value instead of the prediction.
    pub guard: bool,
}

/// One state and cap, and what is expected of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The parts, in the order of the applications.
    pub state: State,
    /// The cap, as asked.
    pub cap: Cap,
    /// RPerf of each application.
    pub rperf: Vec<f64>,
    /// RPerf that each application keeps in 95 of 100 cases. `None` if the calibration is too small to tell.
    pub low: Option<Vec<f64>>,
    /// Sum of `rperf`.
    pub throughput: f64,
    /// Least of `rperf`.
    pub fairness: f64,
    /// `throughput` per watt of the cap.
    pub efficiency: f64,
    /// Whether every application keeps more than α.
    pub allowed: bool,
    /// Whether this very combination was measured, so that nothing is predicted. Only with the guard on.
    pub measured: bool,
}

/// What was chosen, and among what.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a choice nobody reads is a GPU nobody divides"]
pub struct Choice {
    /// `None`: no candidate is allowed.
    pub chosen: Option<Candidate>,
    /// All candidates: caps ascending, then the states in the order of [`Model::states`].
    pub candidates: Vec<Candidate>,
}

/// Up to so many candidates, all are weighed.
const EXHAUSTIVE: usize = 100_000;

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ChooseError {
    /// Fewer than two applications, or not one set of counters for each.
    #[error(
        "expected two or more applications with counters of each: got {apps}, with counters of {features}"
    )]
    Applications {
        /// Names given.
        apps: usize,
        /// Counters given.
        features: usize,
    },
    /// α is negative or no number.
    #[error("alpha {0} is not a share of performance: expected 0 to 1, such as 0.2")]
    Alpha(f64),
    /// The cap is below all calibrated ones.
    #[error("no runs at or below {cap}: the lowest calibrated cap is {lowest}")]
    CapTooLow {
        /// The cap asked for.
        cap: Cap,
        /// The lowest calibrated cap.
        lowest: Cap,
    },
    /// No state with so many parts was calibrated.
    #[error("no calibrated state has {}", geometry::counted(*.0, "part"))]
    NoState(usize),
    /// The application is unlike those that the model was fitted to.
    #[error("`{app}`: {error}")]
    OutOfRange {
        /// The application.
        app: String,
        /// The counter.
        error: OutOfRange,
    },
    /// Nothing was held out, so nobody knows how far predictions go wrong.
    #[error("the calibration is too small to hold applications out: measure more, or turn the guard off")]
    NoGuard,
}

/// Counters of applications from the GPU and source of a model.
///
/// # Errors
///
/// [`ProfileError`] if the table has no such line for one of them.
pub fn features(
    model: &Model,
    counters: &CounterTable,
    apps: &[String],
) -> Result<Vec<Features>, ProfileError> {
    apps.iter().map(|app| counters.features(model.gpu(), model.source(), app, model.basis())).collect()
}

/// Chooses the state, and for Problem 2 the cap.
///
/// A cap between calibrated ones counts as the lower. Of equally good candidates, the one with the higher fairness is
/// chosen, then the lower cap, then the first state.
///
/// # Errors
///
/// [`ChooseError`] if the model cannot tell; that nothing is allowed is a [`Choice`].
pub fn choose(model: &Model, question: &Question<'_>) -> Result<Choice, ChooseError> {
    choose_within(model, question, EXHAUSTIVE)
}

/// As [`choose`], but weighs every candidate only if there are at most so many.
///
/// Of more, hill climbing weighs a part. What it chooses is allowed and no single step is better, yet another candidate may
/// be.
///
/// # Errors
///
/// As [`choose`].
pub fn choose_within(model: &Model, question: &Question<'_>, most: usize) -> Result<Choice, ChooseError> {
    check(model, question)?;
    let candidates = Field::new(model, question)?.candidates(most);
    let better = |a: &&Candidate, b: &&Candidate| question.compare(a, b);
    // `max_by` takes the last of equals: from the end, that is the first.
    let chosen = candidates.iter().rev().filter(|c| c.allowed).max_by(better).cloned();
    Ok(Choice { chosen, candidates })
}

/// As [`choose`], among the candidates that `legal` lets pass. `None`: none of them is allowed.
///
/// # Errors
///
/// As [`choose`].
pub fn choose_among(
    model: &Model,
    question: &Question<'_>,
    legal: impl Fn(&Candidate) -> bool,
) -> Result<Option<Candidate>, ChooseError> {
    let candidates = choose_within(model, question, EXHAUSTIVE)?.candidates;
    let better = |a: &Candidate, b: &Candidate| question.compare(a, b);
    Ok(candidates.into_iter().rev().filter(|c| c.allowed && legal(c)).max_by(better))
}

impl Question<'_> {
    /// What is to be high.
    pub(crate) fn goal(&self, candidate: &Candidate) -> f64 {
        match self.problem {
            Problem::Throughput(_) => candidate.throughput,
            Problem::Efficiency => candidate.efficiency,
        }
    }

    /// Which of two allowed candidates is better.
    pub(crate) fn compare(&self, a: &Candidate, b: &Candidate) -> Ordering {
        self.goal(a).total_cmp(&self.goal(b)).then(a.fairness.total_cmp(&b.fairness))
    }
}

impl Choice {
    /// Why nothing is chosen. `None` if something is.
    #[must_use]
    pub fn reason(&self, question: &Question<'_>) -> Option<String> {
        if self.chosen.is_some() {
            return None;
        }
        let kept = |c: &&Candidate| c.kept(question.guard).unwrap_or(f64::NEG_INFINITY);
        let best = self.candidates.iter().rev().max_by(|a, b| kept(a).total_cmp(&kept(b)))?;
        let (alpha, kept) = (question.alpha, kept(&best));
        let (state, cap) = (&best.state, best.cap);
        Some(format!(
            "no candidate keeps every application above {alpha}: the best keeps {kept:.3} ({state} at {cap})"
        ))
    }
}

impl Candidate {
    /// What the worst-off application keeps: by the cautious values or by the predictions.
    pub(crate) fn kept(&self, guard: bool) -> Option<f64> {
        if guard { self.low.as_deref().map(least) } else { Some(self.fairness) }
    }
}

pub(crate) fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn check(model: &Model, question: &Question<'_>) -> Result<(), ChooseError> {
    let (apps, features) = (question.apps.len(), question.features.len());
    if apps < 2 || apps != features {
        return Err(ChooseError::Applications { apps, features });
    }
    if !(question.alpha.is_finite() && question.alpha >= 0.0) {
        return Err(ChooseError::Alpha(question.alpha));
    }
    if question.guard && model.held_out.is_none() {
        return Err(ChooseError::NoGuard);
    }
    let held = question.apps.iter().zip(question.features);
    held.into_iter().try_for_each(|(app, features)| {
        let error = |error| ChooseError::OutOfRange { app: app.clone(), error };
        model.range.holds(features, model.basis).map_err(error)
    })
}

/// Measured runs of the same applications. None where measurements do not count.
pub(crate) fn measured<'m>(model: &'m Model, question: &Question<'_>) -> Vec<&'m Run> {
    let places = model.measured_of.get(&sorted(question.apps)).filter(|_| question.guard);
    places.into_iter().flatten().map(|at| &model.measured[*at]).collect()
}

/// RPerf of the applications if `run` had each of them on the same part at the same cap.
pub(crate) fn measurement(run: &Run, state: &State, cap: Cap, apps: &[String]) -> Option<Vec<f64>> {
    if run.cap != cap {
        return None;
    }
    let mut left: Vec<usize> = (0..run.apps.len()).collect();
    let held = state.parts().iter().zip(apps);
    let one = |(part, app): (&Part, &String)| {
        let same = |at: &usize| run.state.parts()[*at] == *part && run.apps[*at] == *app;
        let place = left.iter().position(same)?;
        Some(run.rperf[left.remove(place)])
    };
    held.map(one).collect()
}
