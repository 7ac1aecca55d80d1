//! The laboratory of [`far`]: the paper's batches, its tables beside ours, and batches of trainings that were measured on a real A100.
//!
//! No plugin and no daemon links this crate. [`tables`] makes what `tessera lab papers far` prints.
//!
//! Source: Villarrubia, Costero, Igual and Olcoz, "Leveraging Multi-Instance GPUs through moldable task scheduling", Journal of
//! Parallel and Distributed Computing 204 (2025) 105128.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod alone;
mod behind;
pub mod generate;
mod measured;
mod printed;

use paper_rows::PaperTable;

pub use measured::{Training, batch_of_trainings, trainings};

/// Computes the tables of the paper that need no GPU. The paper has means of 1000 batches; `runs` says how many of ours.
#[must_use]
pub fn tables(runs: u64) -> Vec<PaperTable> {
    vec![
        alone::table_4(runs),
        alone::table_5(runs),
        alone::table_6(runs),
        behind::table_7(runs),
        behind::table_8(runs),
        behind::table_9(runs),
        measured::figure_12(runs),
    ]
}
