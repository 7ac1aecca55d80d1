//! The papers' jobs and mixes.
//!
//! Neither paper publishes the run time of a job. What is assumed instead, and why:
//!
//! - A job of a Rodinia family takes a start-up time plus a rate times its size. The rates, one per family and machine, are
//!   fitted to the rows of CASE Table 7 for single assignment (`data/first-fit.csv`), 16 numbers.
//! - Every Rodinia task holds its device with a demand ([`Machine::demand`]), one for each machine: the one with which CASE slows
//!   tasks as the artefact measured it, the mean of its kernels' and its copies' slowdowns over W1 to W8.
//! - Of a process's life, a first part passes before its task begins, the rest in the task ([`Machine::host_share`]). One number
//!   for each machine, fitted to the mean of its eight bars of CASE in Fig. 6.
//! - A Darknet job is one task; time and demand of each kind follow from Table 8 and Fig. 8 ([`Darknet`]).
//! - CASE-MIG's training jobs take one time, [`TRAINING_SECONDS`], fitted to the mean throughput of its Fig. 1; the large ones
//!   of the A100 take longer in proportion to their memory. Its Rodinia jobs are those of CASE on a V100. The jobs below
//!   1 GB of its Fig. 2 are not printed: halves and quarters of the smallest commands in memory, with their times.
//!
//! So Figs. 5 and 7, Tables 3, 4 and 6 and the pattern of Fig. 6 are predictions, and its means are not. Many rates reproduce Table
//! 7 equally well: [`Rates::fits`] has twenty, and [`crate::papers`] prints what depends on the choice. Memory and geometry are
//! facts: the sources stand in `data/README.md`.

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
    Command, K80_MIXES, Machine, Rates, commands, job, life, rodinia, rodinia_random, rodinia_with,
};
