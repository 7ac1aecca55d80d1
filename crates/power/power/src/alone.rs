//! Problem 2 for an application that has its GPU to itself: only the cap is chosen.
//!
//! The model knows such an application as one on the part with all compute slices, `7g` or `7c` on an A100: the runs that it
//! was fitted to must have lines of it alone there at every cap. Without MIG the GPU has the same slices and memory.

use crate::cap::Cap;
use crate::features::Features;
use crate::model::{Model, OutOfRange};
use crate::monotone::never_falling;
use crate::part::{Memory, Part};

/// Holds a cap for an application that is alone, and what is expected under it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alone {
    /// The cap.
    pub cap: Cap,
    /// RPerf under it.
    pub rperf: f64,
}

/// Says why there is no cap.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AloneError {
    /// No runs of applications alone on the whole GPU.
    #[error("the power model has no runs alone on {0}g or {0}c: calibrate with them")]
    NoRuns(u8),
    /// The application is unlike those that the model was fitted to.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// Nothing was held out, so nobody knows how far predictions go wrong.
    #[error("the calibration is too small to hold applications out: measure more, or turn the guard off")]
    NoGuard,
    /// Every cap takes too much performance.
    #[error("no cap keeps it above {alpha}: the best keeps {kept:.3}")]
    NotAllowed {
        /// α as asked.
        alpha: f64,
        /// Performance that the highest cap keeps.
        kept: f64,
    },
}

/// Chooses the calibrated cap with the highest performance per watt that keeps more than `alpha`; of equally good ones the
/// lower. `slices` is the GPU's number of compute slices.
///
/// With the guard on, the prediction less the largest of the model's excesses must be above `alpha`: an application
/// alone was not held out by itself, and a prediction without a neighbour has one source of error less.
///
/// # Errors
///
/// [`AloneError`]: the model cannot tell, or no cap is allowed.
pub fn choose_alone(
    model: &Model,
    slices: u8,
    features: &Features,
    alpha: f64,
    guard: bool,
) -> Result<Alone, AloneError> {
    let row = [Memory::Private, Memory::Shared].map(|memory| Part { memory, slices });
    let row = row.iter().find_map(|part| model.solo.get(part)).ok_or(AloneError::NoRuns(slices))?;
    model.range.holds(features, model.basis)?;
    let margin = if guard { model.excess.ok_or(AloneError::NoGuard)? } else { 0.0 };
    let terms = model.basis.own(features);
    let mut curve: Vec<f64> = row.iter().map(|coefficients| dot(coefficients, &terms)).collect();
    if model.basis.never_falls() {
        never_falling(&mut curve);
    }
    let mut best: Option<Alone> = None;
    for (cap, rperf) in model.caps.iter().zip(&curve).filter(|(_, rperf)| **rperf - margin > alpha) {
        let per_watt = |one: &Alone| one.rperf / f64::from(one.cap.watts());
        let next = Alone { cap: *cap, rperf: *rperf };
        if best.as_ref().is_none_or(|known| per_watt(&next) > per_watt(known)) {
            best = Some(next);
        }
    }
    let kept = curve.iter().copied().fold(f64::NEG_INFINITY, f64::max) - margin;
    best.ok_or(AloneError::NotAllowed { alpha, kept })
}

/// Calculates the value of a linear model.
fn dot(coefficients: &[f64], terms: &[f64]) -> f64 {
    coefficients.iter().zip(terms).map(|(c, term)| c * term).sum()
}
