//! The model as a file: JSON that `tessera lab power fit` writes and `tessera lab power choose` reads.

mod rows;

use power::rows::table;
use power::{Basis, FORMAT, Features, Part};

use crate::errors::Errors;
use crate::fitted::Fitted;
use crate::model::{Model, View, by_apps};
use crate::runs::Run;
use crate::state::{State, StateError};
use crate::terms::partner_terms;
use rows::{Corun, FileCompared, FileErrors, FileRange, Measured, ModelRows, Over, Solo};

/// Why a file is no model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// Something that slurmctld reads too, or a row.
    #[error(transparent)]
    ModelRows(#[from] power::ModelError),
    /// No state, or one that the GPU cannot have.
    #[error(transparent)]
    State(#[from] StateError),
}

impl Model {
    /// The model as JSON, numbers at full precision.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        // Plain numbers, words and lists: nothing here can fail to become JSON.
        serde_json::to_value(self.file()).unwrap_or_default()
    }

    fn file(&self) -> ModelRows {
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
        ModelRows {
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
        let alone = power::Model::from_json(text)?;
        let (basis, caps) = (alone.inputs().basis, alone.caps().to_vec());
        let file: ModelRows =
            serde_json::from_str(text).map_err(|e| power::ModelError::Json(e.to_string()))?;
        let solo = file.solo.into_iter().map(Solo::row).collect::<Result<Vec<_>, _>>()?;
        let corun = file.corun.into_iter().map(Corun::row).collect::<Result<Vec<_>, _>>()?;
        let solo = table("solo", basis.own_terms(), &caps, solo, Part::to_string)?;
        let corun = table("corun", partner_terms(basis), &caps, corun, View::words)?;
        let measured = file.measured.into_iter().map(Measured::run).collect::<Result<Vec<_>, _>>()?;
        let model = Self {
            gpu: file.gpu,
            source: file.source,
            basis,
            caps,
            solo,
            corun,
            range: *alone.range(),
            errors: file.errors.into(),
            held_out: file.held_out.map(Errors::from),
            over95: file.over95.iter().map(Over::row).collect::<Result<_, _>>()?,
            measured_of: by_apps(&measured),
            measured,
            compared: file.compared.into_iter().map(FileCompared::pair).collect::<Result<_, _>>()?,
            refused: file.refused,
            driver: file.driver,
        };
        model.is_whole()?;
        Ok(model)
    }

    /// Checks that every combination is on the GPU and has all its rows.
    fn is_whole(&self) -> Result<(), ModelError> {
        let missing = |rows, what: String| Err(power::ModelError::Missing { rows, what }.into());
        let gpu = geometry::Model::find(&self.gpu);
        for view in self.corun.keys() {
            let parts = view.configuration();
            let state = State::new(parts.clone())?;
            gpu.map_or(Ok(()), |gpu| state.fits(gpu))?;
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
        if self.corun.is_empty() {
            let what = "there are no rows".to_owned();
            return Err(power::ModelError::Row { rows: "corun", what }.into());
        }
        Ok(())
    }
}
