//! Measured runs of applications alone and together: `runs.csv`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::state::State;
use power::Cap;
use power::Part;
use power::csv::{self, CsvError, Line};

/// One measured run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// How the GPU was divided.
    pub state: State,
    /// The power cap.
    pub cap: Cap,
    /// The applications, in the order of the state's parts.
    pub apps: Vec<String>,
    /// Relative performance of each application: 1 is alone, without MIG and cap. Above 0.
    pub rperf: Vec<f64>,
}

/// A run without its numbers. It is the same for `4c+3c` with `a+b` and for `3c+4c` with `b+a`: one configuration, seen
/// from both sides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Combination {
    cap: Cap,
    /// Who holds which part, in ascending order. No part stands for the whole GPU.
    held: Vec<(Option<Part>, String)>,
}

impl Combination {
    pub(crate) fn of(state: &State, cap: Cap, apps: &[String]) -> Self {
        let part = |at: usize| state.parts().get(at).copied();
        let mut held: Vec<_> = apps.iter().enumerate().map(|(at, app)| (part(at), app.clone())).collect();
        held.sort();
        Self { cap, held }
    }
}

impl Run {
    /// Whether the run has one application on one part: a run that C is fitted to.
    #[must_use]
    pub fn is_solo(&self) -> bool {
        self.state.parts().len() == 1
    }

    /// Whether the run has several applications: a run that D is fitted to.
    #[must_use]
    pub fn is_corun(&self) -> bool {
        self.state.parts().len() > 1
    }
}

const HEADERS: [[&str; 4]; 2] = [["state", "cap_w", "apps", "rperf"], ["state", "cap_w", "apps", "seconds"]];
const ALLOWED: [&[&str]; 2] = [&HEADERS[0], &HEADERS[1]];

/// Reads `text`; `file` is its name in errors. Each configuration comes once, in the order of the file.
///
/// With a column `seconds` instead of `rperf`, relative performance is the time of the application's `full` line at the
/// highest cap, divided by the time of the run.
///
/// # Errors
///
/// [`CsvError`] for the first bad line: words that are no state, cap or names; as many applications or numbers as the
/// state does not have; numbers that are not above 0; two lines of one configuration that disagree; `seconds` without a
/// reference.
pub fn parse(file: &str, text: &str) -> Result<Vec<Run>, CsvError> {
    read(file, text, None)
}

/// As [`parse`], for runs on this GPU model.
///
/// # Errors
///
/// As [`parse`], and for the first state that the model cannot have.
pub fn parse_on(gpu: &geometry::Model, file: &str, text: &str) -> Result<Vec<Run>, CsvError> {
    read(file, text, Some(gpu))
}

fn read(file: &str, text: &str, gpu: Option<&geometry::Model>) -> Result<Vec<Run>, CsvError> {
    let (which, lines) = csv::lines(file, text, &ALLOWED)?;
    let mut runs: Vec<(Run, &Line<'_>)> = Vec::new();
    let mut known: BTreeMap<Combination, (usize, Vec<f64>)> = BTreeMap::new();
    for line in &lines {
        let run = run(line)?;
        if let Some(gpu) = gpu {
            run.state.fits(gpu).map_err(|e| line.error(0, e.to_string()))?;
        }
        let values = ordered(&run);
        match known.entry(Combination::of(&run.state, run.cap, &run.apps)) {
            Entry::Vacant(place) => {
                place.insert((line.number, values));
                runs.push((run, line));
            }
            Entry::Occupied(place) if place.get().1 == values => {}
            Entry::Occupied(place) => {
                let first = place.get().0;
                return Err(line.error(3, format!("disagrees with line {first} for the same configuration")));
            }
        }
    }
    if which == 0 {
        return Ok(runs.into_iter().map(|(run, _)| run).collect());
    }
    let references = references(&runs);
    runs.into_iter().map(|(run, line)| relative(run, line, &references)).collect()
}

/// The numbers in the order of the combination. Two copies of an application on equal parts are interchangeable.
fn ordered(run: &Run) -> Vec<f64> {
    let mut order: Vec<usize> = (0..run.apps.len()).collect();
    let key = |at: usize| (run.state.parts().get(at), &run.apps[at]);
    order.sort_by(|a, b| key(*a).cmp(&key(*b)).then(run.rperf[*a].total_cmp(&run.rperf[*b])));
    order.into_iter().map(|at| run.rperf[at]).collect()
}

fn run(line: &Line<'_>) -> Result<Run, CsvError> {
    let state: State = line.text(0).parse().map_err(|e| line.error(0, format!("{e}")))?;
    let cap: Cap = line.text(1).parse().map_err(|e| line.error(1, format!("{e}")))?;
    let apps = line.names(2)?;
    if apps.len() != state.applications() {
        let what =
            format!("{} applications for the state {state}, expected {}", apps.len(), state.applications());
        return Err(line.error(2, what));
    }
    let rperf: Vec<f64> =
        line.text(3).split('+').map(|word| positive(line, word.trim())).collect::<Result<_, _>>()?;
    if rperf.len() != apps.len() {
        return Err(line.error(3, format!("{} numbers for {} applications", rperf.len(), apps.len())));
    }
    Ok(Run { state, cap, apps, rperf })
}

fn positive(line: &Line<'_>, word: &str) -> Result<f64, CsvError> {
    let value = line.number(3, word)?;
    if value > 0.0 { Ok(value) } else { Err(line.error(3, format!("{word} is not above 0"))) }
}

/// Seconds of each application's `full` line at the highest cap.
fn references(runs: &[(Run, &Line<'_>)]) -> BTreeMap<String, f64> {
    let mut full: Vec<&Run> = runs.iter().map(|(run, _)| run).filter(|run| run.state.is_full()).collect();
    full.sort_by_key(|run| run.cap);
    full.into_iter().map(|run| (run.apps[0].clone(), run.rperf[0])).collect()
}

fn relative(run: Run, line: &Line<'_>, references: &BTreeMap<String, f64>) -> Result<Run, CsvError> {
    let one = |(app, seconds): (&String, &f64)| match references.get(app) {
        Some(reference) => Ok(reference / seconds),
        None => Err(line.error(2, format!("`{app}` has seconds but no `full` line to compare with"))),
    };
    let rperf = run.apps.iter().zip(&run.rperf).map(one).collect::<Result<_, _>>()?;
    Ok(Run { rperf, ..run })
}
