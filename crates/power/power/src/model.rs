//! A calibrated model as slurmctld uses it: coefficients of applications alone, for what they hold, and how far predictions
//! go wrong.

use std::collections::BTreeMap;

use crate::basis::{Basis, Inputs};
use crate::cap::Cap;
use crate::features::{COUNTERS, Features};
use crate::part::Part;

/// Bounds each counter by the applications with runs, percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Least values of F1 to F8.
    pub min: Features,
    /// Largest values of F1 to F8.
    pub max: Features,
}

/// Names a counter that is beyond what the model was calibrated with.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{counter} is {value}, outside the calibrated {min} to {max}: add runs of such an application")]
pub struct OutOfRange {
    /// The counter: `f2`, or `f6+f7+f8`.
    pub counter: &'static str,
    /// Value, percent.
    pub value: f64,
    /// The least calibrated value.
    pub min: f64,
    /// The largest calibrated value.
    pub max: f64,
}

impl Range {
    /// Checks that predictions hold for these counters.
    ///
    /// Counters that the basis does not need are not looked at. A counter may be beyond its range by a tenth of the range's width. F6 to F8 count by their sum, as in H2.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] for the first counter that is further out.
    pub fn holds(&self, features: &Features, basis: Basis) -> Result<(), OutOfRange> {
        let check = |counter, value: f64, min: f64, max: f64| {
            let margin = (max - min) / 10.0;
            let is_inside = (min - margin..=max + margin).contains(&value);
            if is_inside { Ok(()) } else { Err(OutOfRange { counter, value, min, max }) }
        };
        for at in (0..5).filter(|at| basis.needs(*at)) {
            check(COUNTERS[at], features[at], self.min[at], self.max[at])?;
        }
        let tensor = |f: &Features| f[5] + f[6] + f[7];
        check("f6+f7+f8", tensor(features), tensor(&self.min), tensor(&self.max))
    }
}

/// Holds what is read of a model file. The other parts of the file, which only the planner and studies need, stay text.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    pub(crate) gpu: String,
    pub(crate) source: String,
    pub(crate) basis: Basis,
    /// Ascending.
    pub(crate) caps: Vec<Cap>,
    pub(crate) solo: BTreeMap<Part, Vec<Vec<f64>>>,
    pub(crate) range: Range,
    pub(crate) excess: Option<f64>,
    pub(crate) text: String,
}

impl Model {
    /// Gives the key of the GPU model.
    #[must_use]
    pub fn gpu(&self) -> &str {
        &self.gpu
    }

    /// Gives what its counters are.
    #[must_use]
    pub fn inputs(&self) -> Inputs<'_> {
        Inputs { gpu: &self.gpu, source: &self.source, basis: self.basis }
    }

    /// Gives the calibrated caps, ascending.
    #[must_use]
    pub fn caps(&self) -> &[Cap] {
        &self.caps
    }

    /// Gives the counters for which predictions hold.
    #[must_use]
    pub fn range(&self) -> &Range {
        &self.range
    }

    /// Gives C of a part, one list for each cap.
    #[must_use]
    pub fn solo(&self, part: Part) -> Option<&[Vec<f64>]> {
        self.solo.get(&part).map(Vec::as_slice)
    }

    /// Gives the most by which 95 of 100 predictions exceed the truth, in the worst configuration. `None`: nothing was held out.
    #[must_use]
    pub fn excess(&self) -> Option<f64> {
        self.excess
    }

    /// Gives the file that it was read from, for readers of the parts that are skipped here.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}
