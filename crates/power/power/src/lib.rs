//! Power models as slurmctld reads them, and the counters that a job brings. `power-cap` chooses a cap by them.
//!
//! A model file has coefficients for each part and cap; a prediction is their product with functions of the counters. Everything
//! else in the file (applications that share a GPU, the runs that it was fitted to, errors) is skipped: the crate `power-study`
//! reads it for the planner, and fits and judges models.
//!
//! # Terminology
//!
//! - *Part*: `4g`, a GPU instance with its own cache and memory, or `4c`, a compute instance that shares them.
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

mod basis;
mod cap;
mod counters;
pub mod csv;
mod error;
mod features;
mod model;
mod model_file;
mod part;
pub mod rows;

pub use basis::{Basis, BasisError, Inputs};
pub use cap::{Cap, CapError};
pub use counters::{CounterTable, ProfileError};
pub use csv::CsvError;
pub use error::{FORMAT, ModelError};
pub use features::{COUNTERS, Features, PARTIAL_SOURCES};
pub use model::{Model, OutOfRange, Range};
pub use part::{Memory, Part, PartError};
