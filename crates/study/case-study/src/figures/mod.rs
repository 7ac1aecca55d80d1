//! The tables and figures of both papers, ours beside the printed values.
//!
//! No run time of a job is published: [`crate::mix`] says what is assumed instead. A value that does not follow from these
//! assumptions has its reason beside it. Nothing is tuned for a single mix.

mod darknet;
mod mig;
pub(crate) mod printed;
mod rodinia;

pub(crate) use rodinia::{MACHINES, MIXES, alg2, case, cg_without_crash, sa};

use crate::policy::Policy;
use crate::sim::{Job, Outcome, Setup, Stuck, simulate};
use paper_rows::{Basis, Measure, PaperRow, RowGroup};
use task_sched::Device;
use task_sched::Order;
use task_sched::Pool;

/// A value of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Label: `W1 sa p100`.
    pub label: String,
    /// As printed; `None` where the paper shows a bar without a number.
    pub paper: Option<f64>,
    /// The simulator's.
    pub ours: f64,
    /// Why the two differ, or cannot be compared.
    pub why: Option<&'static str>,
}

/// A goal that a figure should reach.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// The measure: `rms log error of CASE`.
    pub what: &'static str,
    /// The least and the most that it may be.
    pub range: (f64, f64),
    /// Our value.
    pub ours: f64,
    /// Why it is not reached, or what it cannot show.
    pub why: Option<&'static str>,
}

impl Goal {
    /// True if the measure is in its range.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        (self.range.0..=self.range.1).contains(&self.ours)
    }
}

/// A table or figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Name of the figure in options.
    pub name: &'static str,
    /// Title, with the unit.
    pub title: &'static str,
    /// The values.
    pub rows: Vec<Row>,
    /// Goals that the values should reach together.
    pub goals: Vec<Goal>,
}

/// Why there is no figure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FigureError {
    /// No figure has this name.
    #[error("{0} is not a figure")]
    Unknown(String),
    /// A run did not end.
    #[error(transparent)]
    Stuck(#[from] Stuck),
}

/// Computes a figure from the first of its seeds.
type Compute = fn(u64) -> Result<Figure, Stuck>;

const FIGURES: [(&str, Compute); 14] = [
    ("fig5", |_| rodinia::fig5()),
    ("fig6", |_| rodinia::fig6()),
    ("fig7", |_| rodinia::fig7()),
    ("fig8", darknet::fig8),
    ("fig9", |_| darknet::fig9()),
    ("table3", |_| rodinia::table3()),
    ("table4", |_| rodinia::table4()),
    ("table6", |_| rodinia::table6()),
    ("table7", |_| rodinia::table7()),
    ("mig:fig1", mig::fig1),
    ("mig:fig2", mig::fig2),
    ("mig:fig3", mig::fig3),
    ("mig:fig4", mig::fig4),
    ("mig:table2", mig::table2),
];

/// The names of all figures, CASE's first.
#[must_use]
pub fn names() -> Vec<&'static str> {
    FIGURES.iter().map(|(name, _)| *name).collect()
}

/// Computes a figure. Random mixes are drawn with ten seeds from `seed` on; the others do not depend on it.
///
/// # Errors
///
/// Where no figure has this name. A run of the papers' mixes always ends.
pub fn figure(name: &str, seed: u64) -> Result<Figure, FigureError> {
    let found = FIGURES.iter().find(|(known, _)| *known == name);
    let (_, compute) = found.ok_or_else(|| FigureError::Unknown(name.to_owned()))?;
    Ok(compute(seed)?)
}

/// How many mixes a random one stands for.
const SEEDS: u64 = 10;

fn seeds(first: u64) -> impl Iterator<Item = u64> + Clone {
    (0..SEEDS).map(move |i| first.wrapping_add(i))
}

/// The run of one policy; its queue is in arrival order.
fn run<P: Policy + Default + 'static>(
    devices: &[Device],
    jobs: &[Job],
    workers: usize,
) -> Result<Outcome, Stuck> {
    let setup = Setup { pool: Pool::new(devices), workers, order: Order::Arrival };
    simulate(&setup, jobs, Box::<P>::default())
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// A goal for the error over the rows, as a part of the error of the best constant: below 1.
fn beats_a_constant(
    what: &'static str,
    measure: Measure,
    (ours, paper): (Vec<f64>, Vec<f64>),
    why: Option<&'static str>,
) -> Goal {
    let rows = paper.into_iter().zip(ours).map(|(paper, ours)| PaperRow::new("", paper, ours)).collect();
    let group = RowGroup { what: what.to_owned(), basis: Basis::Predicted, measure, within: 0.0, rows };
    let rival = group.constant().map_or(0.0, |constant| constant.error);
    Goal { what, range: (0.0, 1.0), ours: group.error().unwrap_or(f64::NAN) / rival, why }
}

/// A goal for the mean of ours over the mean of the paper's: within `part` of 1.
fn mean_within(what: &'static str, part: f64, ours: &[f64], paper: &[f64]) -> Goal {
    Goal { what, range: (1.0 - part, 1.0 + part), ours: mean(ours) / mean(paper), why: None }
}

/// Ours and the paper's values of the rows that have both and whose label `counts`.
fn both(rows: &[Row], counts: impl Fn(&str) -> bool) -> (Vec<f64>, Vec<f64>) {
    let printed = rows.iter().filter(|row| counts(&row.label));
    printed.filter_map(|row| Some((row.ours, row.paper?))).unzip()
}
