//! `acct_gather_energy_tessera.so`: what each job uses of its GPUs' energy, for `sacct` and `sstat`.
//!
//! Slurm asks the plugin in the daemon of each step, as root. The answer is the job's part of the energy that the node's ledger
//! and the driver's counters tell: of the extern step, all that the job has used, which is what Slurm adds to the job; of any other
//! step, what the job has used since the step began. slurmd asks about the whole node; it gets no answer, because other plugins
//! measure nodes.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

#[expect(unsafe_code, reason = "Slurm's structs, and the symbols that it looks up")]
mod ffi;
mod step;
