//! A calibrated model: what the coefficients are, for what they hold, and how wrong they are.

use std::collections::{BTreeMap, BTreeSet};

use power::{Basis, Cap, Features, Inputs, Part, Range};
use power_cap::never_falling;

use crate::errors::Errors;
use crate::fitted::Fitted;
use crate::runs::Run;
use crate::state::{State, joined};
use crate::terms::{Terms, partners};

/// A part, and the parts beside it in ascending order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct View {
    pub(crate) part: Part,
    pub(crate) beside: Vec<Part>,
}

impl View {
    /// What the application at place `at` of a state sees.
    pub(crate) fn of(parts: &[Part], at: usize) -> Self {
        let mut beside = parts.to_vec();
        let part = beside.remove(at);
        beside.sort();
        Self { part, beside }
    }

    pub(crate) fn beside(&self) -> String {
        joined(&self.beside)
    }

    /// All its parts in ascending order.
    pub(crate) fn configuration(&self) -> Vec<Part> {
        let mut parts = self.beside.clone();
        parts.push(self.part);
        parts.sort();
        parts
    }
}

/// One application on its part: coefficients for each cap, and what they are multiplied with.
pub(crate) struct Sight<'m> {
    own: (&'m [Fitted], &'m [f64]),
    partner: (&'m [Fitted], Vec<f64>),
    never_falls: bool,
    /// How much a prediction exceeds the truth at most, in 95 of 100 cases.
    pub(crate) over: Option<f64>,
}

impl Sight<'_> {
    /// RPerf at every calibrated cap.
    pub(crate) fn curve(&self) -> Vec<f64> {
        let (own, partner) = (&self.own, &self.partner);
        let fitted = own.0.iter().zip(partner.0);
        let mut curve: Vec<f64> = fitted.map(|(c, d)| c.of(own.1) + d.of(&partner.1)).collect();
        if self.never_falls {
            never_falling(&mut curve);
        }
        curve
    }
}

/// Coefficients for one GPU model and one source of counters.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    pub(crate) gpu: String,
    pub(crate) source: String,
    pub(crate) basis: Basis,
    /// Ascending.
    pub(crate) caps: Vec<Cap>,
    /// C by part, one for each cap.
    pub(crate) solo: BTreeMap<Part, Vec<Fitted>>,
    /// D by part and parts beside, one for each cap.
    pub(crate) corun: BTreeMap<View, Vec<Fitted>>,
    pub(crate) range: Range,
    pub(crate) errors: Errors,
    pub(crate) held_out: Option<Errors>,
    pub(crate) over95: BTreeMap<View, f64>,
    /// The co-runs that it was calibrated with.
    pub(crate) measured: Vec<Run>,
    /// Places in `measured` by applications in alphabetical order: every choice looks there.
    pub(crate) measured_of: BTreeMap<Vec<String>, Vec<usize>>,
    /// Held-out errors of the bases that it was chosen from.
    pub(crate) compared: Vec<(Basis, Option<Errors>)>,
    /// Why the other basis was not taken although it was asked for.
    pub(crate) refused: Option<String>,
    /// Version of the driver that the runs were measured under.
    pub(crate) driver: Option<String>,
}

/// [`Model::measured_of`] of some runs.
pub(crate) fn by_apps(measured: &[Run]) -> BTreeMap<Vec<String>, Vec<usize>> {
    let mut places: BTreeMap<Vec<String>, Vec<usize>> = BTreeMap::new();
    for (at, run) in measured.iter().enumerate() {
        places.entry(sorted(&run.apps)).or_default().push(at);
    }
    places
}

pub(crate) fn sorted(apps: &[String]) -> Vec<String> {
    let mut apps = apps.to_vec();
    apps.sort();
    apps
}

impl Model {
    /// Key of the GPU model.
    #[must_use]
    pub fn gpu(&self) -> &str {
        &self.gpu
    }

    /// Says what its counters are.
    #[must_use]
    pub fn inputs(&self) -> Inputs<'_> {
        Inputs { gpu: &self.gpu, source: &self.source, basis: self.basis }
    }

    /// The functions of the counters.
    #[must_use]
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// Calibrated caps, ascending.
    #[must_use]
    pub fn caps(&self) -> &[Cap] {
        &self.caps
    }

    /// Where predictions hold.
    #[must_use]
    pub fn range(&self) -> &Range {
        &self.range
    }

    /// Errors on the co-runs that the model was fitted to.
    #[must_use]
    pub fn errors(&self) -> Errors {
        self.errors
    }

    /// Errors on each co-run under a fit without any run of its applications. `None` where too few runs are left.
    #[must_use]
    pub fn held_out(&self) -> Option<Errors> {
        self.held_out
    }

    /// Bases that were compared on applications left out of the fit, each with its errors; none if one was asked for.
    #[must_use]
    pub fn compared(&self) -> &[(Basis, Option<Errors>)] {
        &self.compared
    }

    /// Version of the driver that the runs were measured under, if it was noted.
    #[must_use]
    pub fn driver(&self) -> Option<&str> {
        self.driver.as_deref()
    }

    /// The model with a note of that version.
    #[must_use]
    pub fn measured_under(mut self, driver: Option<String>) -> Self {
        self.driver = driver;
        self
    }

    /// Why the model has the paper's basis although the better one was asked for. `None` if it has what was asked for.
    #[must_use]
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// RPerf of applications with these counters on the parts of `state`, in its order. `None` if the state or the cap is
    /// not calibrated. Neither clamped nor held to the calibrated range.
    #[must_use]
    pub fn predict(&self, state: &State, cap: Cap, features: &[Features]) -> Option<Vec<f64>> {
        let at = self.caps.binary_search(&cap).ok()?;
        let terms: Vec<Terms> = features.iter().map(|f| Terms::of(self.basis, f)).collect();
        let terms: Vec<&Terms> = terms.iter().collect();
        let sights = self.sights(state, &terms)?;
        Some(sights.iter().map(|sight| sight.curve()[at]).collect())
    }

    /// What each application on a state sees. `None` if the state is not calibrated or holds another number.
    pub(crate) fn sights<'m>(&'m self, state: &State, terms: &[&'m Terms]) -> Option<Vec<Sight<'m>>> {
        let parts = state.parts();
        if parts.len() != terms.len() {
            return None;
        }
        let one = |at: usize| {
            let view = View::of(parts, at);
            Some(Sight {
                own: (self.solo.get(&view.part)?, &terms[at].own),
                partner: (self.corun.get(&view)?, partners(terms, at)),
                never_falls: self.basis.never_falls(),
                over: self.over95.get(&view).copied(),
            })
        };
        (0..parts.len()).map(one).collect()
    }

    /// Every order of every calibrated combination of `n` parts: shared before private, large before small.
    #[must_use]
    pub fn states(&self, n: usize) -> Vec<State> {
        let configurations: BTreeSet<Vec<Part>> =
            self.corun.keys().map(View::configuration).filter(|parts| parts.len() == n).collect();
        let mut orders: Vec<Vec<Part>> = configurations.into_iter().flat_map(orders).collect();
        orders.sort_by(|a, b| a[0].memory.cmp(&b[0].memory).then_with(|| b.cmp(a)));
        orders.into_iter().filter_map(|parts| State::new(parts).ok()).collect()
    }
}

/// The distinct orders of some parts.
fn orders(parts: Vec<Part>) -> BTreeSet<Vec<Part>> {
    if parts.len() < 2 {
        return BTreeSet::from([parts]);
    }
    let firsts: BTreeSet<Part> = parts.iter().copied().collect();
    let with_first = |first: Part| {
        let mut rest = parts.clone();
        rest.remove(parts.iter().position(|p| *p == first).unwrap_or(0));
        orders(rest).into_iter().map(move |rest| [vec![first], rest].concat())
    };
    firsts.into_iter().flat_map(with_first).collect()
}
