//! Problem 2 for an application that has its GPU to itself: only the cap is chosen.
//!
//! The model knows such an application as one on the part with all compute slices, `7g` or `7c` on an A100: the runs that it
//! was fitted to must have lines of it alone there at every cap. Without MIG the GPU has the same slices and memory.

use power::{Cap, Features, Memory, Model, OutOfRange, Part};

use crate::monotone::never_falling;

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
    let row = row.iter().find_map(|part| model.solo(*part)).ok_or(AloneError::NoRuns(slices))?;
    let basis = model.inputs().basis;
    model.range().holds(features, basis)?;
    let margin = if guard { model.excess().ok_or(AloneError::NoGuard)? } else { 0.0 };
    let terms = basis.own(features);
    let mut curve: Vec<f64> = row.iter().map(|coefficients| dot(coefficients, &terms)).collect();
    if basis.never_falls() {
        never_falling(&mut curve);
    }
    let mut best: Option<Alone> = None;
    for (cap, rperf) in model.caps().iter().zip(&curve).filter(|(_, rperf)| **rperf - margin > alpha) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A model of two caps; `held_out` and what else the file has.
    fn file(held_out: &str, rest: &str) -> String {
        let two_caps = include_str!("../../power/tests/data/two_caps.json");
        let file = two_caps.replace("\"held_out\": {}", &format!("\"held_out\": {held_out}"));
        file.replace("\"4g\"}]", &format!("\"4g\"}}]{rest}"))
    }

    const FEATURES: Features = [50.0, 50.0, 50.0, 50.0, 50.0, 1.0, 1.0, 1.0];

    fn cap(file: &str, alpha: f64, guard: bool) -> Result<u32, String> {
        let model = Model::from_json(file).unwrap();
        let chosen = choose_alone(&model, 7, &FEATURES, alpha, guard);
        chosen.map(|alone| alone.cap.watts()).map_err(|e| e.to_string())
    }

    #[test]
    fn parts_that_only_the_planner_needs_are_passed_over() {
        let deep =
            format!(r#", "corun": {}{}, "measured": "none", "errors": 3"#, "[".repeat(100), "]".repeat(100));
        for rest in ["", &deep] {
            let file = file("{}", rest);
            assert_eq!(Model::from_json(&file).unwrap().text(), file);
            assert_eq!(cap(&file, 0.75, false), Ok(150));
            // 0.8 less the excess of 0.1 is below α, 0.9 less 0.1 is not.
            assert_eq!(cap(&file, 0.75, true), Ok(250));
        }
    }

    #[test]
    fn without_held_out_errors_the_guard_refuses() {
        assert_eq!(cap(&file("null", ""), 0.5, false), Ok(150));
        let nobody_knows = file("{}", "").replace(r#"{"over": 0.05}, {"over": 0.1, "part": "4g"}"#, "");
        for file in [file("null", ""), nobody_knows] {
            assert!(cap(&file, 0.5, true).unwrap_err().starts_with("the calibration is too small"), "{file}");
        }
    }
}
