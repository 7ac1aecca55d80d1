//! Which partition of a GPU, which application on which part, and which power cap.
//!
//! # Problem
//!
//! Several applications share one GPU. Given their hardware counters and a fairness α, find the state S (the parts, in
//! the order of the applications) that has the highest throughput under a power cap P (Problem 1), or S and P with the
//! highest throughput per watt (Problem 2), so that every application keeps more than α of its performance alone.
//!
//! # Terminology
//!
//! - *Part*: `4g`, a GPU instance with its own cache and memory, or `4c`, a compute instance that shares them.
//! - *State*: `4c+3c`, the parts of a GPU; `full` is without MIG.
//! - *Cap*: the power limit of the whole GPU, whole watts.
//! - *Counters*: F1 to F8, percent, of a run alone.
//! - *RPerf*: performance relative to a run alone, without MIG and cap.
//!
//! # Source
//!
//! Arima, Kang, Saba, Weidendorfer, Trinitis, Schulz: Optimizing Hardware Resource Partitioning and Job Allocations on
//! Modern GPUs under Power Caps. ICPP Workshops '22, doi:10.1145/3547276.3548630.
//!
//! The crate decides only: it opens no file, reads no clock and draws no random number.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod alone;
mod basis;
pub mod calibration;
mod cap;
mod choose;
mod counters;
mod csv;
mod divide;
mod evaluate;
mod field;
mod fit;
pub mod groups;
mod held_out;
mod least_squares;
mod model;
mod model_file;
mod monotone;
pub mod ncu;
mod part;
pub mod runs;

pub use alone::{Alone, AloneError, choose_alone};
pub use basis::{Basis, BasisError};
pub use cap::{Cap, CapError};
pub use choose::{
    Candidate, Choice, ChooseError, Problem, Question, choose, choose_among, choose_within, features,
};
pub use counters::{COUNTERS, CounterTable, Features, ProfileError};
pub use csv::CsvError;
pub use divide::{DivideError, Division, Group, divide};
pub use evaluate::{Judged, Truth, Verdict, Workload, evaluate, workloads};
pub use fit::{FitError, fit, fit_best};
pub use model::{Errors, Model, OutOfRange, Range};
pub use model_file::{FORMAT, ModelError};
pub use part::{Memory, Part, PartError, State};
pub use runs::Run;
