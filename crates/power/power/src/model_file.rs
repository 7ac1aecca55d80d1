//! Reads the parts of a model file that a cap is chosen by. `tessera lab power fit` writes the file: JSON.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::basis::Basis;
use crate::cap::Cap;
use crate::error::{FORMAT, ModelError};
use crate::features::{COUNTERS, Features};
use crate::model::{Model, Range};
use crate::part::Part;
use crate::rows::table;

/// Holds what is read first: the rest of another format may look different.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    format: serde_json::Value,
}

/// Names the fields that are read. Others are passed over without being stored.
#[derive(Deserialize)]
struct ModelFile {
    gpu: String,
    source: String,
    basis: String,
    caps_w: Vec<u32>,
    solo: Vec<Solo>,
    range: FileRange,
    held_out: Option<IgnoredAny>,
    over95: Vec<Over>,
}

#[derive(Deserialize)]
struct Solo {
    part: String,
    cap_w: u32,
    c: Vec<f64>,
}

#[derive(Deserialize)]
struct FileRange {
    min: [Option<f64>; 8],
    max: [Option<f64>; 8],
}

#[derive(Deserialize)]
struct Over {
    over: f64,
}

/// Takes F1 to F8 of a range. Those that the basis does not need are 0.
fn counters(basis: Basis, range: [Option<f64>; 8]) -> Result<Features, ModelError> {
    let mut features = [0.0; 8];
    for at in (0..8).filter(|at| basis.needs(*at)) {
        let missing = || ModelError::Missing { rows: "range", what: COUNTERS[at].to_owned() };
        features[at] = range[at].ok_or_else(missing)?;
    }
    Ok(features)
}

/// Finds how far predictions exceed the truth at most. `None`: nothing was held out, so nobody knows.
fn excess(file: &ModelFile) -> Result<Option<f64>, ModelError> {
    let mut most: Option<f64> = None;
    for Over { over } in &file.over95 {
        if *over < 0.0 {
            return Err(ModelError::Row { rows: "over95", what: "over is below 0".to_owned() });
        }
        most = Some(most.unwrap_or(0.0).max(*over));
    }
    Ok(most.filter(|_| file.held_out.is_some()))
}

impl Model {
    /// Reads a model file and keeps its text. Nothing is stored of the parts that are passed over, and each row needs its bytes in
    /// the text: who reads the file bounds it (plugins: 4 MiB).
    ///
    /// # Errors
    ///
    /// [`ModelError`]: another format, basis or GPU; caps that do not ascend; rows of applications
    /// alone that are missing, there twice, or have the wrong number of coefficients.
    pub fn from_json(text: &str) -> Result<Self, ModelError> {
        let json = |e: serde_json::Error| ModelError::Json(e.to_string());
        let Head { format } = serde_json::from_str(text).map_err(json)?;
        if format != FORMAT {
            return Err(ModelError::Format { found: format.to_string() });
        }
        let file: ModelFile = serde_json::from_str(text).map_err(json)?;
        let basis: Basis = file.basis.parse()?;
        if !geometry::Model::all().iter().any(|model| model.key == file.gpu) {
            return Err(ModelError::Gpu(file.gpu));
        }
        let caps = file.caps_w.iter().map(|w| Cap::new(*w)).collect::<Result<Vec<_>, _>>()?;
        if caps.is_empty() || !caps.is_sorted_by(|a, b| a < b) {
            return Err(ModelError::Caps(file.caps_w));
        }
        let excess = excess(&file)?;
        let row = |row: Solo| Ok((row.part.parse()?, row.cap_w, row.c));
        let solo = file.solo.into_iter().map(row).collect::<Result<Vec<_>, ModelError>>()?;
        let solo = table("solo", basis.own_terms(), &caps, solo, Part::to_string)?;
        let range = Range { min: counters(basis, file.range.min)?, max: counters(basis, file.range.max)? };
        if !range.min.iter().zip(&range.max).all(|(min, max)| min <= max) {
            return Err(ModelError::Row { rows: "range", what: "min is above max".to_owned() });
        }
        let (gpu, source, text) = (file.gpu, file.source, text.to_owned());
        Ok(Self { gpu, source, basis, caps, solo, range, excess, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_CAPS: &str = include_str!("../tests/data/two_caps.json");

    #[test]
    fn a_file_that_could_not_be_a_model_is_refused() {
        let refused =
            |from: &str, to: &str| Model::from_json(&TWO_CAPS.replace(from, to)).unwrap_err().to_string();
        assert_eq!(refused("[150, 250]", "[250, 150]"), "caps_w is not ascending: [250, 150]");
        assert_eq!(refused("0.05", "-0.05"), "over95: over is below 0");
        assert_eq!(refused("0, 0.8]", "0.8]"), "solo: 7g at 150 W has 5 coefficients, expected 6");
        assert_eq!(refused("\"cap_w\": 250", "\"cap_w\": 150"), "solo: 7g at 150 W is listed twice");
        assert_eq!(refused("\"7g\"", "\"7x\"").split(':').next(), Some("`7x` is not a part"));
        assert_eq!(refused("\"max\": [99", "\"max\": [0"), "range: min is above max");
    }
}
