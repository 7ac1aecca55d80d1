//! Tasks that ask for parts of a GPU, whole GPUs or cores only, packed onto a cluster until it is full.
//!
//! # Source
//! Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX
//! ATC '23. Traces and published results: `hkust-adsl/kubernetes-scheduler-simulator`, `data/csv` and
//! `experiments/analysis/expected_results`.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod arrivals;
mod csv;
mod draw;
mod node;
mod policy;
mod run;
mod scores;
pub mod stream;
mod trace;

pub use arrivals::{MOST_ARRIVALS, arrivals};
pub use cluster_rank::{Models, Shape};
pub use csv::ReadError;
pub use policy::NAMES;
pub use run::{Event, Run, Summary};
pub use trace::{NodeSpec, TaskSpec, Trace};
