//! Hardware counters of applications: `counters.csv`.
//!
//! Each line is the profile of one application that ran alone on the whole GPU without MIG and cap. All counters are
//! percent: F1 compute throughput, F2 memory throughput, F3 DRAM throughput, F4 L2 hit rate, F5 occupancy, F6, F7, F8
//! use of the tensor cores in mixed, double and integer precision (Arima et al., Table 3).

use std::collections::{BTreeMap, BTreeSet};

use crate::basis::Inputs;
use crate::csv::{self, CsvError, Line};
use crate::features::{COUNTERS, Features, PARTIAL_SOURCES};

const HEADER: [&str; 11] = ["app", "gpu", "source", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8"];

/// Names a line: a GPU, a source and an application.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CounterKey {
    gpu: String,
    source: String,
    app: String,
}

/// Holds the profiles of a file, by GPU, source and application.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CounterTable {
    rows: BTreeMap<CounterKey, [Option<f64>; 8]>,
}

/// Says why an application has no usable profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// No line for it on this GPU.
    #[error("no counters of `{app}` on {gpu}: profile it first")]
    NoProfile {
        /// The application.
        app: String,
        /// The GPU's key.
        gpu: String,
    },
    /// There are lines for it, but on other GPUs.
    #[error("no counters of `{app}` on {gpu}; those of {found} cannot replace them")]
    OtherGpu {
        /// The application.
        app: String,
        /// The key of the GPU whose counters are needed.
        gpu: String,
        /// The GPUs that have counters.
        found: String,
    },
    /// There are lines for it on this GPU, but from other tools.
    #[error("no counters of `{app}` on {gpu} from {source_wanted}; those from {found} cannot replace them")]
    OtherSource {
        /// The application.
        app: String,
        /// The GPU's key.
        gpu: String,
        /// The tool whose counters are needed.
        source_wanted: String,
        /// The tools that have counters.
        found: String,
    },
    /// The source does not know one of the counters.
    #[error("{source_name} gives no {counter} of `{app}`")]
    NoCounter {
        /// The application.
        app: String,
        /// The tool.
        source_name: String,
        /// The counter: `f2`.
        counter: &'static str,
    },
}

impl CounterTable {
    /// Reads `text`; `file` is its name in errors.
    ///
    /// Identical lines for the same application, GPU and source count once.
    ///
    /// # Errors
    ///
    /// [`CsvError`] for the first bad line: a counter that is missing, no number or outside 0 to 100, F1 of 0 (H3
    /// divides by it), or two lines that disagree. Sources `dcgm` and `gpm` may leave F2 and F4 empty.
    pub fn parse(file: &str, text: &str) -> Result<Self, CsvError> {
        let (_, lines) = csv::lines(file, text, &[&HEADER])?;
        let mut table = Self::default();
        let mut first: BTreeMap<CounterKey, usize> = BTreeMap::new();
        for line in &lines {
            let (key, counters) = row(line)?;
            let number = *first.entry(key.clone()).or_insert(line.number);
            let known = *table.rows.entry(key).or_insert(counters);
            if let Some(at) = (0..8).find(|at| known[*at] != counters[*at]) {
                return Err(
                    line.error(at + 3, format!("disagrees with line {number} for the same application"))
                );
            }
        }
        Ok(table)
    }

    /// Lists the sources that have profiles of this GPU, in alphabetical order.
    #[must_use]
    pub fn sources(&self, gpu: &str) -> Vec<&str> {
        let mut sources: Vec<&str> =
            self.rows.keys().filter(|k| k.gpu == gpu).map(|k| k.source.as_str()).collect();
        sources.dedup();
        sources
    }

    /// Lists all lines of an application: GPU, source, and F1 to F8 as they stand there, percent.
    pub fn of_app<'t>(&'t self, app: &'t str) -> impl Iterator<Item = (&'t str, &'t str, [Option<f64>; 8])> {
        let rows = self.rows.iter().filter(move |(key, _)| key.app == app);
        rows.map(|(key, counters)| (key.gpu.as_str(), key.source.as_str(), *counters))
    }

    /// Finds F1 to F8 of an application, as one tool counted them on one GPU. Counters that the basis does not need are 0.
    ///
    /// # Errors
    ///
    /// [`ProfileError`] if the line or a counter that the basis needs is missing.
    pub fn features(&self, inputs: Inputs<'_>, app: &str) -> Result<Features, ProfileError> {
        let Inputs { gpu, source, basis } = inputs;
        let key = CounterKey { gpu: gpu.to_owned(), source: source.to_owned(), app: app.to_owned() };
        let Some(row) = self.rows.get(&key) else { return Err(self.missing(key)) };
        let mut features = [0.0; 8];
        for (at, counter) in COUNTERS.into_iter().enumerate().filter(|(at, _)| basis.needs(*at)) {
            features[at] = row[at].ok_or_else(|| ProfileError::NoCounter {
                app: app.to_owned(),
                source_name: source.to_owned(),
                counter,
            })?;
        }
        Ok(features)
    }

    fn missing(&self, key: CounterKey) -> ProfileError {
        let same_app = self.rows.keys().filter(|k| k.app == key.app);
        let (here, elsewhere): (Vec<&CounterKey>, Vec<&CounterKey>) =
            same_app.partition(|k| k.gpu == key.gpu);
        let CounterKey { gpu, source, app } = key;
        if !here.is_empty() {
            let found = listed(here.iter().map(|k| k.source.as_str()));
            ProfileError::OtherSource { app, gpu, source_wanted: source, found }
        } else if !elsewhere.is_empty() {
            let found = listed(elsewhere.iter().map(|k| k.gpu.as_str()));
            ProfileError::OtherGpu { app, gpu, found }
        } else {
            ProfileError::NoProfile { app, gpu }
        }
    }
}

/// Joins names by commas, each once.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
}

fn row(line: &Line<'_>) -> Result<(CounterKey, [Option<f64>; 8]), CsvError> {
    let name = |column: usize| match line.names(column)?.as_slice() {
        [one] => Ok(one.clone()),
        _ => Err(line.error(column, format!("`{}` is not one name", line.text(column)))),
    };
    let key = CounterKey { app: name(0)?, gpu: name(1)?, source: name(2)? };
    let mut counters = [None; 8];
    for (at, counter) in counters.iter_mut().enumerate() {
        *counter = percent(line, at, &key.source)?;
    }
    Ok((key, counters))
}

/// Reads the counter with this index; `None` where the source does not have it.
fn percent(line: &Line<'_>, at: usize, source: &str) -> Result<Option<f64>, CsvError> {
    let column = at + 3;
    let word = line.text(column);
    if word.is_empty() {
        let may_lack = PARTIAL_SOURCES.contains(&source) && [1, 3].contains(&at);
        return if may_lack { Ok(None) } else { Err(line.error(column, "the counter is missing")) };
    }
    let value = line.number(column, word)?;
    if !(0.0..=100.0).contains(&value) {
        return Err(line.error(column, format!("{word} is not a percentage: expected 0 to 100")));
    }
    if at == 0 && value == 0.0 {
        return Err(line.error(column, "compute throughput is 0: profile the whole application"));
    }
    Ok(Some(value))
}
