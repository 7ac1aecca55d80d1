//! The candidates of a question: all of them, or those that hill climbing meets.

use std::cell::OnceCell;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use power::{Cap, Part};

use crate::model::{Model, sorted as sorted_apps};
use crate::question::{Candidate, ChooseError, Problem, Question, least};
use crate::runs::Run;
use crate::state::State;
use crate::terms::Terms;

/// States and caps that a question leaves open.
pub(crate) struct Field<'q> {
    model: &'q Model,
    question: &'q Question<'q>,
    terms: Vec<Terms>,
    states: Vec<State>,
    /// What is predicted for each state, once it is asked for.
    outlooks: Vec<OnceCell<Vec<Outlook>>>,
    /// Each with the index of the calibrated cap that it counts as.
    caps: Vec<(usize, Cap)>,
    measured: Vec<&'q Run>,
}

/// One application on its part.
struct Outlook {
    /// RPerf at every calibrated cap.
    curve: Vec<f64>,
    /// How much a prediction exceeds the truth at most, in 95 of 100 cases.
    over: Option<f64>,
}

/// A state and a cap, by their indices.
type StateAndCap = (usize, usize);

impl<'q> Field<'q> {
    pub(crate) fn new(model: &'q Model, question: &'q Question<'q>) -> Result<Self, ChooseError> {
        let caps: Vec<(usize, Cap)> = match question.problem {
            Problem::Efficiency => model.caps.iter().copied().enumerate().collect(),
            Problem::Throughput(cap) => {
                let at = model.caps.partition_point(|calibrated| *calibrated <= cap);
                let lowest = model.caps[0];
                vec![(at.checked_sub(1).ok_or(ChooseError::CapTooLow { cap, lowest })?, cap)]
            }
        };
        let terms: Vec<Terms> = question.features.iter().map(|f| Terms::of(model.basis, f)).collect();
        let states = model.states(terms.len());
        if states.is_empty() {
            return Err(ChooseError::NoState(question.apps.len()));
        }
        let outlooks = states.iter().map(|_| OnceCell::new()).collect();
        let measured = measured(model, question);
        Ok(Self { model, question, terms, states, outlooks, caps, measured })
    }

    /// Every candidate, caps ascending and then the states in order, or of more than `most` those that climbing meets.
    pub(crate) fn candidates(&self, most: usize) -> Vec<Candidate> {
        let all = self.states.len() * self.caps.len();
        if all > most {
            return self.climb();
        }
        let of_cap = |cap: usize| (0..self.states.len()).map(move |state| self.candidate((state, cap)));
        (0..self.caps.len()).flat_map(of_cap).collect()
    }

    fn outlooks(&self, state: usize) -> &[Outlook] {
        self.outlooks[state].get_or_init(|| {
            let terms: Vec<&Terms> = self.terms.iter().collect();
            // Every state of the model has its rows: `Model::from_json` and `fit` see to it.
            let sights = self.model.sights(&self.states[state], &terms).unwrap_or_default();
            sights.iter().map(|sight| Outlook { curve: sight.curve(), over: sight.over }).collect()
        })
    }

    fn candidate(&self, (state, cap): StateAndCap) -> Candidate {
        let (question, outlooks) = (self.question, self.outlooks(state));
        let (state, (at, cap)) = (&self.states[state], self.caps[cap]);
        let known = |run: &&Run| measurement(run, state, self.model.caps[at], question.apps);
        let measured = self.measured.iter().find_map(known);
        let is_measured = measured.is_some();
        let rperf = measured.unwrap_or_else(|| outlooks.iter().map(|o| o.curve[at]).collect());
        let cautious = || outlooks.iter().zip(&rperf).map(|(o, rperf)| Some(rperf - o.over?)).collect();
        let low: Option<Vec<f64>> = if is_measured { Some(rperf.clone()) } else { cautious() };
        let throughput: f64 = rperf.iter().sum();
        let mut candidate = Candidate {
            state: state.clone(),
            cap,
            fairness: least(&rperf),
            rperf,
            low,
            throughput,
            efficiency: throughput / f64::from(cap.watts()),
            allowed: false,
            measured: is_measured,
        };
        candidate.allowed = candidate.kept(question.guard).is_some_and(|kept| kept > question.alpha);
        candidate
    }

    /// Climbs from every state at the lowest, a middle and the highest cap. All that it met, in order.
    ///
    /// States are few (a few hundred for seven slices), caps may be many (every watt).
    fn climb(&self) -> Vec<Candidate> {
        let mut met: BTreeMap<(usize, usize), Candidate> = BTreeMap::new();
        let top = self.caps.len() - 1;
        for state in 0..self.states.len() {
            for cap in [0, top / 2, top] {
                self.climb_from((state, cap), &mut met);
            }
        }
        met.into_values().collect()
    }

    fn climb_from(&self, start: StateAndCap, met: &mut BTreeMap<(usize, usize), Candidate>) {
        let mut here = start;
        let mut best = self.visit(here, met);
        // Every step is better than the one before: it ends.
        loop {
            let steps = self.steps(here).into_iter().map(|place| (place, self.visit(place, met)));
            let Some((place, candidate)) = steps.max_by(|a, b| self.compare(&a.1, &b.1)) else { return };
            if self.compare(&candidate, &best) != Ordering::Greater {
                return;
            }
            (here, best) = (place, candidate);
        }
    }

    fn visit(&self, place: StateAndCap, met: &mut BTreeMap<(usize, usize), Candidate>) -> Candidate {
        met.entry((place.1, place.0)).or_insert_with(|| self.candidate(place)).clone()
    }

    /// Allowed before not allowed; of those that are not, the one that keeps more.
    fn compare(&self, a: &Candidate, b: &Candidate) -> Ordering {
        let kept = |c: &Candidate| c.kept(self.question.guard).unwrap_or(f64::NEG_INFINITY);
        a.allowed
            .cmp(&b.allowed)
            .then_with(|| if a.allowed { self.question.compare(a, b) } else { kept(a).total_cmp(&kept(b)) })
    }

    /// One order of each combination of parts.
    fn combinations(&self) -> Vec<usize> {
        let mut first: BTreeMap<Vec<Part>, usize> = BTreeMap::new();
        for (at, state) in self.states.iter().enumerate() {
            first.entry(sorted(state.parts())).or_insert(at);
        }
        first.into_values().collect()
    }

    /// Other caps, twice as far each time; two applications that change places; other parts, the larger to the same.
    fn steps(&self, (state, cap): StateAndCap) -> Vec<StateAndCap> {
        let far = (0..usize::BITS).map(|bit| 1_usize << bit).take_while(|far| *far < self.caps.len());
        let caps = far.flat_map(|far| [cap.checked_sub(far), cap.checked_add(far)]).flatten();
        let caps = caps.filter(|cap| *cap < self.caps.len()).map(|cap| (state, cap));
        let parts = self.states[state].parts();
        let mut orders: Vec<Vec<Part>> = Vec::new();
        for (a, b) in (0..parts.len()).flat_map(|a| (0..a).map(move |b| (a, b))) {
            let mut order = parts.to_vec();
            order.swap(a, b);
            orders.push(order);
        }
        let mut places: Vec<usize> = (0..parts.len()).collect();
        places.sort_by_key(|at| parts[*at].slices);
        for other in self.combinations() {
            let mut order = parts.to_vec();
            places.iter().zip(sorted(self.states[other].parts())).for_each(|(at, part)| order[*at] = part);
            orders.push(order);
        }
        let known = |order: Vec<Part>| self.states.iter().position(|s| s.parts() == order);
        let orders = orders.into_iter().filter_map(known).filter(|other| *other != state);
        caps.chain(orders.map(|other| (other, cap))).collect()
    }
}

fn sorted(parts: &[Part]) -> Vec<Part> {
    let mut parts = parts.to_vec();
    parts.sort();
    parts
}

/// Measured runs of the same applications. None where measurements do not count.
fn measured<'m>(model: &'m Model, question: &Question<'_>) -> Vec<&'m Run> {
    let places = model.measured_of.get(&sorted_apps(question.apps)).filter(|_| question.guard);
    places.into_iter().flatten().map(|at| &model.measured[*at]).collect()
}

/// RPerf of the applications if `run` had each of them on the same part at the same cap.
fn measurement(run: &Run, state: &State, cap: Cap, apps: &[String]) -> Option<Vec<f64>> {
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
