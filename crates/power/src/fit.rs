//! Coefficients from measured runs.
//!
//! C by least squares over the runs alone, for each part and cap. Then D over what C leaves of the runs together, for
//! each part, the parts beside it, and cap: `4c+3c` and `3c+4c` are one configuration, seen from both sides.
//! Source: Arima et al., section 4.3 and 5.1.3.

use std::collections::{BTreeMap, BTreeSet};

use crate::basis::Basis;
use crate::cap::Cap;
use crate::counters::{CounterTable, Features, ProfileError};
use crate::held_out;
use crate::least_squares::{Fitted, solve};
use crate::model::{Model, Range, View, by_apps};
use crate::part::{Part, PartError};
use crate::runs::Run;

/// Why no model was fitted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FitError {
    /// Every run is a reference, or none has several applications.
    #[error("no runs of several applications together: interference cannot be calibrated")]
    NoCoRuns,
    /// A state that the GPU cannot have.
    #[error(transparent)]
    State(#[from] PartError),
    /// No source has counters of every application with runs.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The file has no counters of this GPU at all.
    #[error("no counters of {gpu}")]
    NoCounters {
        /// The GPU's key.
        gpu: String,
    },
    /// Ours with F2 and F4 for a source without, or the basis `dcgm` for another source.
    #[error(
        "basis {basis} does not go with counters from {found}: dcgm is for dcgm and gpm, the others are for ncu"
    )]
    OtherBasis {
        /// The basis asked for.
        basis: Basis,
        /// The sources that have counters of the GPU.
        found: String,
    },
    /// Fewer runs than coefficients.
    #[error("too few runs of {what} at {cap}: {runs}, expected at least {needed}, one for each coefficient")]
    TooFewRuns {
        /// The part, and what is beside it: `4c`, `4c beside 3c`.
        what: String,
        /// The cap.
        cap: Cap,
        /// Runs found.
        runs: usize,
        /// Coefficients to fit.
        needed: usize,
    },
    /// The numbers are so large or small that their squares overflow.
    #[error("the runs of {what} at {cap} have no least squares solution: a counter is extreme")]
    NoSolution {
        /// The part, and what is beside it.
        what: String,
        /// The cap.
        cap: Cap,
    },
}

/// H and J of one application.
pub(crate) struct Terms {
    pub(crate) own: Vec<f64>,
    pub(crate) partner: Vec<f64>,
}

impl Terms {
    pub(crate) fn of(basis: Basis, features: &Features) -> Self {
        Self { own: basis.own(features), partner: basis.partner(features) }
    }
}

/// ΣJ of the applications other than the one at place `at`.
pub(crate) fn partners(terms: &[&Terms], at: usize) -> Vec<f64> {
    let mut sum = vec![0.0; terms[at].partner.len()];
    for other in terms.iter().enumerate().filter(|(place, _)| *place != at).map(|(_, other)| other) {
        sum.iter_mut().zip(&other.partner).for_each(|(sum, j)| *sum += j);
    }
    sum
}

/// The runs to fit to.
#[derive(Clone)]
pub(crate) struct Training<'a> {
    pub(crate) basis: Basis,
    /// How many caps are calibrated.
    pub(crate) caps: usize,
    pub(crate) terms: &'a BTreeMap<&'a str, Terms>,
    pub(crate) solo: Vec<&'a Run>,
    pub(crate) coruns: Vec<&'a Run>,
}

impl<'a> Training<'a> {
    /// The terms of a run's applications.
    pub(crate) fn terms_of(&self, run: &Run) -> Vec<&'a Terms> {
        run.apps.iter().filter_map(|app| self.terms.get(app.as_str())).collect()
    }

    /// C of a part at a cap.
    pub(crate) fn own(&self, part: Part, cap: Cap) -> Result<Fitted, FitError> {
        let runs = self.solo.iter().filter(|run| run.cap == cap && run.state.parts() == [part]);
        let rows: Vec<(&[f64], f64)> =
            runs.map(|run| (self.terms_of(run)[0].own.as_slice(), run.rperf[0])).collect();
        fitted(&rows, self.basis.own_terms(), || part.to_string(), cap)
    }

    /// D of a view at a cap, over what `own` leaves.
    pub(crate) fn partner(&self, view: &View, cap: Cap, own: &Fitted) -> Result<Fitted, FitError> {
        let mut rows: Vec<(Vec<f64>, f64)> = Vec::new();
        for run in self.coruns.iter().filter(|run| run.cap == cap) {
            let terms = self.terms_of(run);
            for at in (0..terms.len()).filter(|at| View::of(run.state.parts(), *at) == *view) {
                rows.push((partners(&terms, at), run.rperf[at] - own.of(&terms[at].own)));
            }
        }
        let rows: Vec<(&[f64], f64)> = rows.iter().map(|(terms, rest)| (terms.as_slice(), *rest)).collect();
        let what = || format!("{} beside {}", view.part, view.beside());
        fitted(&rows, self.basis.partner_terms(), what, cap)
    }
}

fn fitted(
    rows: &[(&[f64], f64)],
    needed: usize,
    what: impl Fn() -> String,
    cap: Cap,
) -> Result<Fitted, FitError> {
    if rows.len() < needed {
        return Err(FitError::TooFewRuns { what: what(), cap, runs: rows.len(), needed });
    }
    let (terms, target): (Vec<&[f64]>, Vec<f64>) = rows.iter().copied().unzip();
    solve(&terms, &target).ok_or_else(|| FitError::NoSolution { what: what(), cap })
}

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
        range: Range::over(features.values()),
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
        sources.into_iter().partition(|source| basis.takes(source));
    if fitting.is_empty() && !other.is_empty() {
        return Err(FitError::OtherBasis { basis, found: other.join(", ") });
    }
    for source in fitting {
        let features = |app: &&'a str| Ok((*app, counters.features(gpu, source, app, basis)?));
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
