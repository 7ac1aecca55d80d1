//! The model as a file: JSON that `tessera power fit` writes and `tessera power choose` reads.

mod rows;

use serde::Deserialize;

use crate::basis::{Basis, BasisError};
use crate::cap::{Cap, CapError};
use crate::counters::{COUNTERS, Features};
use crate::least_squares::Fitted;
use crate::model::{Errors, Model, Range, View, by_apps};
use crate::part::{Part, PartError, State};
use crate::runs::Run;
use rows::{Corun, File, FileCompared, FileErrors, FileRange, Measured, Over, Solo, table};

/// The number of this form. A change that an older release would misread gets the next one.
pub const FORMAT: u64 = 1;

/// Why a file is no model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// Not JSON, or not these fields.
    #[error("not a power model: {0}")]
    Json(String),
    /// Written by another release.
    #[error("format {found} of the power model is unknown, expected {FORMAT}: fit the model again")]
    Format {
        /// What the file has; `null` if nothing.
        found: String,
    },
    /// A basis that this release does not know.
    #[error(transparent)]
    Basis(#[from] BasisError),
    /// No GPU model has this key.
    #[error("gpu: `{0}` is not a known GPU model")]
    Gpu(String),
    /// No cap.
    #[error(transparent)]
    Cap(#[from] CapError),
    /// No part or state, or one that the GPU cannot have.
    #[error(transparent)]
    Part(#[from] PartError),
    /// `caps_w` is empty or not ascending.
    #[error("caps_w is not ascending: {0:?}")]
    Caps(Vec<u32>),
    /// A row that the others need.
    #[error("{rows} has no row for {what}")]
    Missing {
        /// The field: `solo`, `corun` or `over95`.
        rows: &'static str,
        /// Part, what is beside it, cap.
        what: String,
    },
    /// A row that is there twice, has the wrong number of values, or belongs nowhere.
    #[error("{rows}: {what}")]
    Row {
        /// The field.
        rows: &'static str,
        /// What is wrong.
        what: String,
    },
}

/// All that is read first: the rest of another format may look different.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    format: serde_json::Value,
}

/// F1 to F8 of a range. Those that the basis does not need are 0.
fn counters(basis: Basis, range: [Option<f64>; 8]) -> Result<Features, ModelError> {
    let mut features = [0.0; 8];
    for at in (0..8).filter(|at| basis.needs(*at)) {
        let missing = || ModelError::Missing { rows: "range", what: COUNTERS[at].to_owned() };
        features[at] = range[at].ok_or_else(missing)?;
    }
    Ok(features)
}

impl Model {
    /// The model as JSON, numbers at full precision.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        // Plain numbers, words and lists: nothing here can fail to become JSON.
        serde_json::to_value(self.file()).unwrap_or_default()
    }

    fn file(&self) -> File {
        let watts = |at: usize| self.caps[at].watts();
        let solo = |(part, rows): (&Part, &Vec<Fitted>)| {
            let part = part.to_string();
            let row = |(at, row): (usize, &Fitted)| {
                let (c, runs, rank) = (row.coefficients.clone(), row.runs, row.rank);
                Solo { part: part.clone(), cap_w: watts(at), c, runs, rank }
            };
            rows.iter().enumerate().map(row).collect::<Vec<_>>()
        };
        let corun = |(view, rows): (&View, &Vec<Fitted>)| {
            let (part, beside) = (view.part.to_string(), view.beside());
            let row = |(at, row): (usize, &Fitted)| {
                let (d, runs, rank) = (row.coefficients.clone(), row.runs, row.rank);
                Corun { part: part.clone(), beside: beside.clone(), cap_w: watts(at), d, runs, rank }
            };
            rows.iter().enumerate().map(row).collect::<Vec<_>>()
        };
        let measured = |run: &Run| Measured {
            state: run.state.to_string(),
            cap_w: run.cap.watts(),
            apps: run.apps.clone(),
            rperf: run.rperf.clone(),
        };
        let over = |(view, over): (&View, &f64)| Over {
            part: view.part.to_string(),
            beside: view.beside(),
            over: *over,
        };
        let compared = |(basis, held_out): &(Basis, Option<Errors>)| FileCompared {
            basis: basis.name().to_owned(),
            held_out: held_out.map(FileErrors::from),
        };
        File {
            format: FORMAT,
            gpu: self.gpu.clone(),
            source: self.source.clone(),
            basis: self.basis.name().to_owned(),
            caps_w: self.caps.iter().map(|cap| cap.watts()).collect(),
            solo: self.solo.iter().flat_map(solo).collect(),
            corun: self.corun.iter().flat_map(corun).collect(),
            range: FileRange { min: self.known(&self.range.min), max: self.known(&self.range.max) },
            errors: self.errors.into(),
            held_out: self.held_out.map(FileErrors::from),
            over95: self.over95.iter().map(over).collect(),
            measured: self.measured.iter().map(measured).collect(),
            compared: self.compared.iter().map(compared).collect(),
            refused: self.refused.clone(),
            driver: self.driver.clone(),
        }
    }

    /// The counters that the basis needs; `null` for the others.
    fn known(&self, features: &Features) -> [Option<f64>; 8] {
        std::array::from_fn(|at| self.basis.needs(at).then_some(features[at]))
    }

    /// Reads what [`Model::to_json`] wrote.
    ///
    /// # Errors
    ///
    /// [`ModelError`]: another format, basis or GPU; caps that do not ascend; rows that are missing, there twice, or have
    /// the wrong number of coefficients.
    pub fn from_json(text: &str) -> Result<Self, ModelError> {
        let json = |e: serde_json::Error| ModelError::Json(e.to_string());
        let Head { format } = serde_json::from_str(text).map_err(json)?;
        if format != FORMAT {
            return Err(ModelError::Format { found: format.to_string() });
        }
        let file: File = serde_json::from_str(text).map_err(json)?;
        let basis: Basis = file.basis.parse()?;
        let gpu = geometry::Model::all().iter().find(|m| m.key == file.gpu);
        let gpu = gpu.ok_or_else(|| ModelError::Gpu(file.gpu.clone()))?;
        let caps = file.caps_w.iter().map(|w| Cap::new(*w)).collect::<Result<Vec<_>, _>>()?;
        if caps.is_empty() || !caps.is_sorted_by(|a, b| a < b) {
            return Err(ModelError::Caps(file.caps_w));
        }
        let solo = file.solo.into_iter().map(Solo::row).collect::<Result<Vec<_>, _>>()?;
        let corun = file.corun.into_iter().map(Corun::row).collect::<Result<Vec<_>, _>>()?;
        let (own_terms, partner_terms) = (basis.own_terms(), basis.partner_terms());
        let solo = table("solo", own_terms, &caps, solo, Part::to_string)?;
        let corun = table("corun", partner_terms, &caps, corun, View::words)?;
        let measured = file.measured.into_iter().map(Measured::run).collect::<Result<Vec<_>, _>>()?;
        let model = Self {
            gpu: file.gpu,
            source: file.source,
            basis,
            caps,
            solo,
            corun,
            range: Range { min: counters(basis, file.range.min)?, max: counters(basis, file.range.max)? },
            errors: file.errors.into(),
            held_out: file.held_out.map(Errors::from),
            over95: file.over95.iter().map(Over::row).collect::<Result<_, _>>()?,
            measured_of: by_apps(&measured),
            measured,
            compared: file.compared.into_iter().map(FileCompared::pair).collect::<Result<_, _>>()?,
            refused: file.refused,
            driver: file.driver,
        };
        model.is_whole(gpu)?;
        Ok(model)
    }

    /// Whether every combination is on the GPU and has all its rows.
    fn is_whole(&self, gpu: &geometry::Model) -> Result<(), ModelError> {
        let missing = |rows, what: String| Err(ModelError::Missing { rows, what });
        for view in self.corun.keys() {
            let parts = view.configuration();
            State::new(parts.clone())?.fits(gpu)?;
            if !self.solo.contains_key(&view.part) {
                return missing("solo", view.part.to_string());
            }
            let all = (0..parts.len()).map(|at| View::of(&parts, at));
            if let Some(view) = all.into_iter().find(|other| !self.corun.contains_key(other)) {
                return missing("corun", view.words());
            }
            if self.held_out.is_some() && !self.over95.contains_key(view) {
                return missing("over95", view.words());
            }
        }
        let ascends = self.range.min.iter().zip(&self.range.max).all(|(min, max)| min <= max);
        let no_row = |rows, what: &str| Err(ModelError::Row { rows, what: what.to_owned() });
        match () {
            () if self.corun.is_empty() => no_row("corun", "there are no rows"),
            () if !ascends => no_row("range", "min is above max"),
            () if self.over95.values().any(|over| *over < 0.0) => no_row("over95", "over is below 0"),
            () => Ok(()),
        }
    }
}
