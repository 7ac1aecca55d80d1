//! The runs that coefficients are fitted to.

use std::collections::BTreeMap;

use power::{Basis, Cap, Part, ProfileError};

use crate::fitted::Fitted;
use crate::least_squares::solve;
use crate::model::View;
use crate::runs::Run;
use crate::state::StateError;
use crate::terms::{Terms, partner_terms, partners};

/// Why no model was fitted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FitError {
    /// Every run is a reference, or none has several applications.
    #[error("no runs of several applications together: interference cannot be calibrated")]
    NoCoRuns,
    /// A state that the GPU cannot have.
    #[error(transparent)]
    State(#[from] StateError),
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
        "basis {basis} cannot be combined with counters from {found}: dcgm is for dcgm and gpm, the others are for ncu"
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
        fitted(&rows, partner_terms(self.basis), what, cap)
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
