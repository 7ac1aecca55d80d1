//! The rows of a model file, and what they stand for.

use power::{Basis, Cap, ModelError, Part, PartError};
use serde::{Deserialize, Serialize};

use crate::errors::Errors;
use crate::fitted::Fitted;
use crate::model::View;
use crate::runs::Run;
use crate::state::State;

#[derive(Serialize, Deserialize)]
pub(super) struct ModelRows {
    pub(super) format: u64,
    pub(super) gpu: String,
    pub(super) source: String,
    pub(super) basis: String,
    pub(super) caps_w: Vec<u32>,
    pub(super) solo: Vec<Solo>,
    pub(super) corun: Vec<Corun>,
    pub(super) range: FileRange,
    pub(super) errors: FileErrors,
    pub(super) held_out: Option<FileErrors>,
    pub(super) over95: Vec<Over>,
    pub(super) measured: Vec<Measured>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) compared: Vec<FileCompared>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) driver: Option<String>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Solo {
    pub(super) part: String,
    pub(super) cap_w: u32,
    pub(super) c: Vec<f64>,
    pub(super) runs: usize,
    pub(super) rank: usize,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Corun {
    pub(super) part: String,
    pub(super) beside: String,
    pub(super) cap_w: u32,
    pub(super) d: Vec<f64>,
    pub(super) runs: usize,
    pub(super) rank: usize,
}

#[derive(Serialize, Deserialize)]
pub(super) struct FileRange {
    pub(super) min: [Option<f64>; 8],
    pub(super) max: [Option<f64>; 8],
}

#[derive(Serialize, Deserialize)]
pub(super) struct FileErrors {
    pub(super) throughput: f64,
    pub(super) fairness: f64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Over {
    pub(super) part: String,
    pub(super) beside: String,
    pub(super) over: f64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) state: String,
    pub(super) cap_w: u32,
    pub(super) apps: Vec<String>,
    pub(super) rperf: Vec<f64>,
}

/// A basis that the model was chosen from.
#[derive(Serialize, Deserialize)]
pub(super) struct FileCompared {
    pub(super) basis: String,
    pub(super) held_out: Option<FileErrors>,
}

impl FileCompared {
    pub(super) fn pair(self) -> Result<(Basis, Option<Errors>), ModelError> {
        Ok((self.basis.parse()?, self.held_out.map(Errors::from)))
    }
}

impl From<Errors> for FileErrors {
    fn from(e: Errors) -> Self {
        Self { throughput: e.throughput, fairness: e.fairness }
    }
}

impl From<FileErrors> for Errors {
    fn from(e: FileErrors) -> Self {
        Self { throughput: e.throughput, fairness: e.fairness }
    }
}

impl View {
    pub(super) fn words(&self) -> String {
        format!("{} beside {}", self.part, self.beside())
    }

    fn parse(part: &str, beside: &str) -> Result<Self, ModelError> {
        let mut parts = beside.split('+').map(str::parse).collect::<Result<Vec<Part>, PartError>>()?;
        parts.sort();
        Ok(Self { part: part.parse()?, beside: parts })
    }
}

impl Solo {
    pub(super) fn row(self) -> Result<(Part, u32, Fitted), ModelError> {
        Ok((
            self.part.parse()?,
            self.cap_w,
            Fitted { coefficients: self.c, runs: self.runs, rank: self.rank },
        ))
    }
}

impl Corun {
    pub(super) fn row(self) -> Result<(View, u32, Fitted), ModelError> {
        let view = View::parse(&self.part, &self.beside)?;
        Ok((view, self.cap_w, Fitted { coefficients: self.d, runs: self.runs, rank: self.rank }))
    }
}

impl Over {
    pub(super) fn row(&self) -> Result<(View, f64), ModelError> {
        Ok((View::parse(&self.part, &self.beside)?, self.over))
    }
}

impl Measured {
    pub(super) fn run(self) -> Result<Run, super::ModelError> {
        let state: State = self.state.parse()?;
        let n = state.applications();
        if self.apps.len() != n || self.rperf.len() != n || !self.rperf.iter().all(|rperf| *rperf > 0.0) {
            let what = format!("{state} needs {n} applications, each with rperf above 0");
            return Err(ModelError::Row { rows: "measured", what }.into());
        }
        let cap = Cap::new(self.cap_w).map_err(ModelError::from)?;
        Ok(Run { state, cap, apps: self.apps, rperf: self.rperf })
    }
}
