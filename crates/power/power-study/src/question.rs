//! Problems 1 and 2: what is asked, and what a candidate is worth.

use std::cmp::Ordering;

use power::{Cap, Features, OutOfRange};

use crate::state::State;

/// What to optimize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Problem 1: the highest throughput under this cap.
    Throughput(Cap),
    /// Problem 2: the highest throughput per watt of the cap.
    Efficiency,
}

impl Problem {
    /// Its number in the paper.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Throughput(_) => 1,
            Self::Efficiency => 2,
        }
    }
}

/// Applications for one GPU, and what they are promised.
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    /// Names of the applications, two or more.
    pub apps: &'q [String],
    /// Their counters, in the same order.
    pub features: &'q [Features],
    /// What to optimize.
    pub problem: Problem,
    /// Each application keeps more than this part of its performance alone; at least 0.
    pub alpha: f64,
    /// Whether α holds for the cautious value instead of the prediction.
    pub guard: bool,
}

/// One state and cap, and what is expected of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The parts, in the order of the applications.
    pub state: State,
    /// The cap, as asked.
    pub cap: Cap,
    /// RPerf of each application.
    pub rperf: Vec<f64>,
    /// RPerf that each application keeps in 95 of 100 cases. `None` if the calibration is too small to tell.
    pub low: Option<Vec<f64>>,
    /// Sum of `rperf`.
    pub throughput: f64,
    /// Least of `rperf`.
    pub fairness: f64,
    /// `throughput` per watt of the cap.
    pub efficiency: f64,
    /// Whether every application keeps more than α.
    pub allowed: bool,
    /// Whether this very combination was measured, so that nothing is predicted. Only with the guard on.
    pub measured: bool,
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ChooseError {
    /// Fewer than two applications, or not one set of counters for each.
    #[error(
        "expected two or more applications with counters of each: got {apps}, with counters of {features}"
    )]
    Applications {
        /// Names given.
        apps: usize,
        /// Counters given.
        features: usize,
    },
    /// α is negative or no number.
    #[error("alpha {0} is not a fraction of the performance: expected 0 to 1, such as 0.2")]
    Alpha(f64),
    /// The cap is below all calibrated ones.
    #[error("no runs at or below {cap}: the lowest calibrated cap is {lowest}")]
    CapTooLow {
        /// The cap asked for.
        cap: Cap,
        /// The lowest calibrated cap.
        lowest: Cap,
    },
    /// No state with so many parts was calibrated.
    #[error("no calibrated state has {}", geometry::counted(*.0, "part"))]
    NoState(usize),
    /// The application is unlike those that the model was fitted to.
    #[error("`{app}`: {error}")]
    OutOfRange {
        /// The application.
        app: String,
        /// The counter.
        error: OutOfRange,
    },
    /// Nothing was held out, so nobody knows how far predictions go wrong.
    #[error("the calibration is too small to hold applications out: measure more, or turn the guard off")]
    NoGuard,
}

impl Question<'_> {
    /// What is to be high.
    pub(crate) fn goal(&self, candidate: &Candidate) -> f64 {
        match self.problem {
            Problem::Throughput(_) => candidate.throughput,
            Problem::Efficiency => candidate.efficiency,
        }
    }

    /// Which of two allowed candidates is better.
    pub(crate) fn compare(&self, a: &Candidate, b: &Candidate) -> Ordering {
        self.goal(a).total_cmp(&self.goal(b)).then(a.fairness.total_cmp(&b.fairness))
    }
}

impl Candidate {
    /// What the worst-off application keeps: by the cautious values or by the predictions.
    pub(crate) fn kept(&self, guard: bool) -> Option<f64> {
        if guard { self.low.as_deref().map(least) } else { Some(self.fairness) }
    }
}

pub(crate) fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}
