//! Coefficients from measured runs.
//!
//! C by least squares over the runs alone, for each part and cap. Then D over what C leaves of the runs together, for
//! each part, the parts beside it, and cap: `4c+3c` and `3c+4c` are one configuration, seen from both sides.
//! Source: Arima et al., section 4.3 and 5.1.3.

use std::collections::{BTreeMap, BTreeSet};

use power::{Basis, Cap, CounterTable, Features, Inputs, Part, ProfileError, Range};

use crate::fitted::Fitted;
use crate::held_out;
use crate::model::{Model, View, by_apps};
use crate::runs::Run;
use crate::terms::{Terms, takes};
use crate::training::{FitError, Training};

/// Fits a model of `gpu` with the better basis: [`Basis::Tessera`] if it predicts applications that it has not seen better
/// than [`Basis::Arima2022`] does, by the mean of both errors. The model says what was compared, and why one was refused.
/// Counters from `dcgm` or `gpm` have [`Basis::Dcgm`].
///
/// # Errors
///
/// As [`fit`] for `arima2022`.
pub fn fit_best(gpu: &geometry::Model, counters: &CounterTable, runs: &[Run]) -> Result<Model, FitError> {
    let paper = match fit(gpu, counters, runs, Basis::Arima2022) {
        Err(e @ (FitError::Profile(_) | FitError::OtherBasis { .. })) => {
            return fit(gpu, counters, runs, Basis::Dcgm).map_err(|_| e);
        }
        other => other?,
    };
    let ours = fit(gpu, counters, runs, Basis::Tessera);
    let held_out = ours.as_ref().ok().and_then(|model| model.held_out);
    let compared = vec![(Basis::Tessera, held_out), (Basis::Arima2022, paper.held_out)];
    let refused = match (&ours, held_out, paper.held_out) {
        (Ok(_), Some(ours), Some(paper)) if ours.mean() < paper.mean() => None,
        (Ok(_), Some(ours), Some(paper)) => Some(format!(
            "tessera: its mean error on unseen applications, {:.1} %, is not below the {:.1} % of arima2022",
            100.0 * ours.mean(),
            100.0 * paper.mean()
        )),
        (Err(e), ..) => Some(format!("tessera: {e}")),
        _ => Some("tessera: too few runs to leave applications out and compare it with arima2022".to_owned()),
    };
    let model = match ours {
        Ok(ours) if refused.is_none() => ours,
        _ => paper,
    };
    Ok(Model { compared, refused, ..model })
}

/// Fits a model of `gpu` to runs, with the counters of their applications.
///
/// The model is calibrated for every cap of the runs; every part and every combination needs runs at each of them. Lines
/// `full` are references and not fitted to.
///
/// # Errors
///
/// [`FitError`]; too few runs name the part, what is beside it, and the cap.
pub fn fit(
    gpu: &geometry::Model,
    counters: &CounterTable,
    runs: &[Run],
    basis: Basis,
) -> Result<Model, FitError> {
    let (solo, coruns): (Vec<&Run>, Vec<&Run>) =
        runs.iter().filter(|run| !run.state.is_full()).partition(|run| run.is_solo());
    if coruns.is_empty() {
        return Err(FitError::NoCoRuns);
    }
    let fitted = || solo.iter().chain(&coruns).copied();
    fitted().try_for_each(|run| run.state.fits(gpu))?;
    let apps: BTreeSet<&str> = fitted().flat_map(|run| &run.apps).map(String::as_str).collect();
    let (source, features) = profiles(&gpu.key, counters, &apps, basis)?;
    let terms = features.iter().map(|(app, features)| (*app, Terms::of(basis, features))).collect();
    let caps: BTreeSet<Cap> = fitted().map(|run| run.cap).collect();
    let parts: BTreeSet<Part> = fitted().flat_map(|run| run.state.parts()).copied().collect();
    let training = Training { basis, caps: caps.len(), terms: &terms, solo, coruns };
    let caps: Vec<Cap> = caps.into_iter().collect();
    let own = |part: Part| {
        let of_caps = caps.iter().map(|cap| training.own(part, *cap)).collect::<Result<_, _>>()?;
        Ok((part, of_caps))
    };
    let solo: BTreeMap<Part, Vec<Fitted>> = parts.into_iter().map(own).collect::<Result<_, FitError>>()?;
    let partner = |view: View| {
        let own = caps.iter().zip(&solo[&view.part]);
        let of_caps = own.map(|(cap, own)| training.partner(&view, *cap, own)).collect::<Result<_, _>>()?;
        Ok((view, of_caps))
    };
    let corun = views(&training.coruns).into_iter().map(partner).collect::<Result<_, FitError>>()?;
    let judged = held_out::judge(&training, &caps, &solo, &corun);
    let measured: Vec<Run> = training.coruns.iter().map(|run| (*run).clone()).collect();
    Ok(Model {
        gpu: gpu.key.clone(),
        source: source.to_owned(),
        basis,
        range: range_over(features.values()),
        errors: judged.errors,
        held_out: judged.held_out,
        over95: judged.over95,
        measured_of: by_apps(&measured),
        measured,
        compared: Vec::new(),
        refused: None,
        driver: None,
        caps,
        solo,
        corun,
    })
}

/// Finds the least and the largest of each counter.
fn range_over<'f>(all: impl IntoIterator<Item = &'f Features>) -> Range {
    let mut range = Range { min: [f64::INFINITY; 8], max: [f64::NEG_INFINITY; 8] };
    for features in all {
        for (at, value) in features.iter().enumerate() {
            range.min[at] = range.min[at].min(*value);
            range.max[at] = range.max[at].max(*value);
        }
    }
    range
}

/// What the applications of some co-runs see.
fn views(coruns: &[&Run]) -> BTreeSet<View> {
    let of = |run: &&Run| {
        let parts = run.state.parts().to_vec();
        (0..parts.len()).map(move |at| View::of(&parts, at)).collect::<Vec<_>>()
    };
    coruns.iter().flat_map(of).collect()
}

/// The source that is taken when several have the counters of all applications: Nsight Compute, as in the paper.
const PREFERRED_SOURCE: &str = "ncu";

/// A source that has counters of all applications, and these counters. Sources are never mixed; of several complete ones,
/// [`PREFERRED_SOURCE`] is taken, else the first by name.
fn profiles<'a>(
    gpu: &str,
    counters: &'a CounterTable,
    apps: &BTreeSet<&'a str>,
    basis: Basis,
) -> Result<(&'a str, BTreeMap<&'a str, Features>), FitError> {
    let (mut complete, mut error) = (Vec::new(), None);
    let sources = counters.sources(gpu);
    let (fitting, other): (Vec<&str>, Vec<&str>) =
        sources.into_iter().partition(|source| takes(basis, source));
    if fitting.is_empty() && !other.is_empty() {
        return Err(FitError::OtherBasis { basis, found: other.join(", ") });
    }
    for source in fitting {
        let features = |app: &&'a str| Ok((*app, counters.features(Inputs { gpu, source, basis }, app)?));
        match apps.iter().map(features).collect::<Result<_, ProfileError>>() {
            Ok(profiles) => complete.push((source, profiles)),
            Err(e) => error = Some(e),
        }
    }
    // The sources come by name; the sort keeps that order among those that are not the profiler of the paper.
    complete.sort_by_key(|(source, _)| *source != PREFERRED_SOURCE);
    let none = || error.map_or_else(|| FitError::NoCounters { gpu: gpu.to_owned() }, FitError::Profile);
    complete.into_iter().next().ok_or_else(none)
}
