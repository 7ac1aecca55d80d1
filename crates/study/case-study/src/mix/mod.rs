//! The papers' jobs and mixes.
//!
//! Neither paper publishes the run time of a job. What is assumed instead, and why:
//!
//! - A job of a Rodinia family takes a start-up time plus a rate times its size. The rates, one per family and machine, are
//!   fitted to the rows of CASE Table 7 for single assignment (`data/first-fit.csv`), 16 numbers.
//! - Of a process's life, the first [`HOST_SHARE`] passes before its task begins, the rest in the task. One number for both
//!   machines, fitted to the 16 bars of Fig. 6, with Table 3 in view.
//! - Every Rodinia task holds its device with demand [`RODINIA_DEMAND`], fitted to the utilisation of single assignment in
//!   Fig. 7.
//! - A Darknet job is one task; time and demand of each kind follow from Table 8 and Fig. 8 ([`Darknet`]).
//! - CASE-MIG's training jobs take one time, [`TRAINING_SECONDS`], fitted to the mean throughput of its Fig. 1; the large ones
//!   of the A100 take longer in proportion to their memory. Its Rodinia jobs are those of CASE on a V100. The jobs below
//!   1 GB of its Fig. 2 are not printed: halves and quarters of the smallest commands in memory, with their times.
//!
//! The host share and the demand come from a grid of a few dozen pairs, with Figs. 5 to 7 and Tables 3 and 4 in view. Those
//! five are therefore consistent with the model, not independent tests of it. Memory and geometry are facts: the sources
//! stand in `data/README.md`.

mod darknet;
mod draw;
mod mig;
mod named;
mod rodinia;

pub(crate) use darknet::FIG8;
pub use darknet::{Darknet, darknet, darknet_mix};
pub use mig::{Ratio, System, TRAINING_SECONDS, mig};
pub use named::{UnknownMix, named};
pub use rodinia::{
    Command, HOST_SHARE, Machine, RODINIA_DEMAND, commands, job, life, rodinia, rodinia_random,
};
