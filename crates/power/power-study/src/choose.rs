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

use power::{CounterTable, Features, ProfileError};

use crate::field::Field;
use crate::model::Model;
use crate::question::{Candidate, ChooseError, Question};

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
    apps.iter().map(|app| counters.features(model.inputs(), app)).collect()
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
