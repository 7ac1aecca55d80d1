//! Which partition of a GPU, which application on which part, and which power cap; and the models that decisions rest on.
//!
//! # Problem
//!
//! Several applications share one GPU. Given their hardware counters and a fairness α, find the state S (the parts, in
//! the order of the applications) that has the highest throughput under a power cap P (Problem 1), or S and P with the
//! highest throughput per watt (Problem 2), so that every application keeps more than α of its performance alone.
//!
//! The planner decides so about pending jobs. Models are fitted, judged and compared here, and calibrations planned. What
//! slurmctld decides itself, and the counters, are in `power`; no plugin links this crate.
//!
//! # Terminology
//!
//! As in `power`, and: *state*, `4c+3c`, the parts of a GPU; `full` is without MIG.
//!
//! # Source
//!
//! Arima, Kang, Saba, Weidendorfer, Trinitis, Schulz: Optimizing Hardware Resource Partitioning and Job Allocations on
//! Modern GPUs under Power Caps. ICPP Workshops '22, doi:10.1145/3547276.3548630.
//!
//! The crate decides only: it opens no file, reads no clock and draws no random number.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod calibration;
mod choose;
mod divide;
mod errors;
mod evaluate;
mod field;
mod fit;
mod fitted;
pub mod groups;
mod held_out;
mod least_squares;
mod model;
mod model_file;
pub mod ncu;
mod question;
pub mod runs;
mod state;
mod terms;
mod training;

pub use choose::{Choice, choose, choose_among, choose_within, features};
pub use divide::{DivideError, Division, Group, divide};
pub use errors::Errors;
pub use evaluate::{Judged, Truth, Verdict, Workload, evaluate, workloads};
pub use fit::{fit, fit_best};
pub use model::Model;
pub use model_file::ModelError;
pub use question::{Candidate, ChooseError, Problem, Question};
pub use runs::Run;
pub use state::{State, StateError};
pub use training::FitError;
