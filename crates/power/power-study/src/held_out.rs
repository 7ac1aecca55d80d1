//! How wrong a model is: on the co-runs it was fitted to, and on applications it has never seen.

use std::collections::{BTreeMap, BTreeSet};

use crate::errors::Errors;
use crate::fitted::Fitted;
use crate::least_squares::as_f64;
use crate::model::View;
use crate::runs::Run;
use crate::terms::partners;
use crate::training::Training;
use power::Cap;
use power::Part;
use power_cap::never_falling;

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
        let at = place(caps, run);
        predict(training, run, at, |view, at| Some((solo[&view.part][at].clone(), corun[view][at].clone())))
    };
    let seen: Option<Vec<_>> = coruns.iter().map(fitted).collect();
    let held_out = unseen(training, caps);
    Judged {
        errors: errors(coruns, &seen.unwrap_or_default()),
        over95: held_out.as_ref().map_or_else(BTreeMap::new, |predictions| over95(coruns, predictions)),
        held_out: held_out.map(|predictions| errors(coruns, &predictions)),
    }
}

/// The index of a run's cap.
fn place(caps: &[Cap], run: &Run) -> usize {
    caps.partition_point(|cap| *cap < run.cap)
}

/// Each co-run as fits without its applications predict it.
fn unseen(training: &Training<'_>, caps: &[Cap]) -> Option<Vec<Vec<f64>>> {
    let mut groups: BTreeMap<BTreeSet<&str>, Vec<usize>> = BTreeMap::new();
    for (at, run) in training.coruns.iter().enumerate() {
        groups.entry(run.apps.iter().map(String::as_str).collect()).or_default().push(at);
    }
    let mut predictions = vec![Vec::new(); training.coruns.len()];
    for (apps, members) in groups {
        let mut others =
            Others { training: without(training, &apps), own: BTreeMap::new(), both: BTreeMap::new() };
        for at in members {
            let run = training.coruns[at];
            let of = |view: &View, at: usize| others.coefficients(view, caps[at]);
            predictions[at] = predict(training, run, place(caps, run), of)?;
        }
    }
    Some(predictions)
}

/// Fits without some applications, each made once.
struct Others<'a> {
    training: Training<'a>,
    own: BTreeMap<(Part, Cap), Option<Fitted>>,
    both: BTreeMap<(View, Cap), Option<(Fitted, Fitted)>>,
}

impl Others<'_> {
    /// C and D of a view. `None` if too few runs are left.
    fn coefficients(&mut self, view: &View, cap: Cap) -> Option<(Fitted, Fitted)> {
        let (training, own) = (&self.training, &mut self.own);
        let fitted = || {
            let own = own.entry((view.part, cap)).or_insert_with(|| training.own(view.part, cap).ok());
            let own = own.clone()?;
            let partner = training.partner(view, cap, &own).ok()?;
            Some((own, partner))
        };
        self.both.entry((view.clone(), cap)).or_insert_with(fitted).clone()
    }
}

/// The runs without these applications.
fn without<'a>(training: &Training<'a>, apps: &BTreeSet<&str>) -> Training<'a> {
    let free = |runs: &[&'a Run]| {
        let free = |run: &&&Run| !run.apps.iter().any(|app| apps.contains(app.as_str()));
        runs.iter().filter(free).copied().collect()
    };
    Training { solo: free(&training.solo), coruns: free(&training.coruns), ..*training }
}

/// RPerf of a run's applications at the cap with index `at`, by C and D of each view and cap.
fn predict(
    training: &Training<'_>,
    run: &Run,
    at: usize,
    mut of: impl FnMut(&View, usize) -> Option<(Fitted, Fitted)>,
) -> Option<Vec<f64>> {
    let terms = training.terms_of(run);
    let mut one = |place: usize| {
        let view = View::of(run.state.parts(), place);
        let beside = partners(&terms, place);
        let mut value = |at: usize| {
            let (own, partner) = of(&view, at)?;
            Some(own.of(&terms[place].own) + partner.of(&beside))
        };
        if !training.basis.never_falls() {
            return value(at);
        }
        let mut curve = (0..training.caps).map(value).collect::<Option<Vec<_>>>()?;
        never_falling(&mut curve);
        Some(curve[at])
    };
    (0..run.apps.len()).map(&mut one).collect()
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
