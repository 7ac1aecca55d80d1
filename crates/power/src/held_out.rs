//! How wrong a model is: on the co-runs it was fitted to, and on applications it has never seen.

use std::collections::BTreeMap;

use crate::cap::Cap;
use crate::fit::{Training, partners};
use crate::least_squares::{Fitted, as_f64};
use crate::model::{Errors, View};
use crate::part::Part;
use crate::runs::Run;

/// Over-estimates that are allowed to be larger: one in twenty.
const QUANTILE: f64 = 0.95;

pub(crate) struct Judged {
    pub(crate) errors: Errors,
    pub(crate) held_out: Option<Errors>,
    /// For each view, how much a prediction exceeds the truth at most, in 95 of 100 cases. Empty without `held_out`.
    pub(crate) over95: BTreeMap<View, f64>,
}

/// Compares predictions with the co-runs.
///
/// For `held_out`, each co-run is predicted by a fit of C and of D without any run of its applications. It needs as many
/// runs left as there are coefficients; if a co-run has fewer, nothing is held out.
pub(crate) fn judge(
    training: &Training<'_>,
    caps: &[Cap],
    solo: &BTreeMap<Part, Vec<Fitted>>,
    corun: &BTreeMap<View, Vec<Fitted>>,
) -> Judged {
    let coruns = &training.coruns;
    let fitted = |run: &&Run| {
        let at = caps.partition_point(|cap| *cap < run.cap);
        let of = |view: View| (solo[&view.part][at].clone(), corun[&view][at].clone());
        predict(training, run, &views(run).map(of).collect::<Vec<_>>())
    };
    let unseen = |run: &&Run| {
        let others = without(training, &run.apps);
        let of = |view: View| {
            let own = others.own(view.part, run.cap).ok()?;
            let partner = others.partner(&view, run.cap, &own).ok()?;
            Some((own, partner))
        };
        Some(predict(training, run, &views(run).map(of).collect::<Option<Vec<_>>>()?))
    };
    let held_out = coruns.iter().map(unseen).collect::<Option<Vec<_>>>();
    Judged {
        errors: errors(coruns, &coruns.iter().map(fitted).collect::<Vec<_>>()),
        over95: held_out.as_ref().map_or_else(BTreeMap::new, |predictions| over95(coruns, predictions)),
        held_out: held_out.map(|predictions| errors(coruns, &predictions)),
    }
}

/// What each application of a run sees.
fn views(run: &Run) -> impl Iterator<Item = View> {
    (0..run.apps.len()).map(|at| View::of(run.state.parts(), at))
}

/// The runs without these applications.
fn without<'a>(training: &Training<'a>, apps: &[String]) -> Training<'a> {
    let free = |runs: &[&'a Run]| {
        let free = |run: &&&Run| !run.apps.iter().any(|app| apps.contains(app));
        runs.iter().filter(free).copied().collect()
    };
    Training { solo: free(&training.solo), coruns: free(&training.coruns), ..*training }
}

/// RPerf of a run's applications by their coefficients C and D.
fn predict(training: &Training<'_>, run: &Run, coefficients: &[(Fitted, Fitted)]) -> Vec<f64> {
    let terms = training.terms_of(run);
    let one = |(at, (own, partner)): (usize, &(Fitted, Fitted))| {
        own.of(&terms[at].own) + partner.of(&partners(&terms, at))
    };
    coefficients.iter().enumerate().map(one).collect()
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Mean relative errors of sum and least.
fn errors(coruns: &[&Run], predictions: &[Vec<f64>]) -> Errors {
    let mean = |of: fn(&[f64]) -> f64| {
        let error = |(run, predicted): (&&Run, &Vec<f64>)| (of(predicted) / of(&run.rperf) - 1.0).abs();
        coruns.iter().zip(predictions).map(error).sum::<f64>() / as_f64(coruns.len())
    };
    Errors { throughput: mean(|values| values.iter().sum()), fairness: mean(least) }
}

/// The quantile of prediction less truth for each view, over all caps, at least 0.
fn over95(coruns: &[&Run], predictions: &[Vec<f64>]) -> BTreeMap<View, f64> {
    let mut excess: BTreeMap<View, Vec<f64>> = BTreeMap::new();
    for (run, predicted) in coruns.iter().zip(predictions) {
        for (at, (prediction, truth)) in predicted.iter().zip(&run.rperf).enumerate() {
            excess.entry(View::of(run.state.parts(), at)).or_default().push(prediction - truth);
        }
    }
    excess.into_iter().map(|(view, values)| (view, quantile(values, QUANTILE).max(0.0))).collect()
}

/// The quantile by linear interpolation between the sorted values: type 7 of Hyndman and Fan.
fn quantile(mut values: Vec<f64>, q: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = q * as_f64(values.len() - 1);
    let below = (0..values.len()).take_while(|at| as_f64(*at) <= place).last().unwrap_or(0);
    let above = values.get(below + 1).unwrap_or(&values[below]);
    values[below] + (place - as_f64(below)) * (above - values[below])
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn quantiles_interpolate() {
        assert_eq!(quantile(vec![3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(quantile(vec![7.0], 0.95), 7.0);
        let values: Vec<f64> = (0..=20).map(f64::from).collect();
        assert!((quantile(values, 0.95) - 19.0).abs() < 1e-12);
        assert!((quantile(vec![0.0, 1.0], 0.95) - 0.95).abs() < 1e-12);
    }
}
