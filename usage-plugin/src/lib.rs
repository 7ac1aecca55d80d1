//! `acct_gather_interconnect_tessera.so`: GPU memory, utilisation and traffic of jobs, for `sacct` and `tessera report`.
//!
//! Slurm's accounting of steps asks its interconnect plugins in the daemon of each step, as root, and hands them the array of
//! everything that it counts. This plugin writes `gres/gpumem` and `gres/gpuutil`, which Slurm itself fills only with
//! `AutoDetect=nvml`, for whole GPUs, and `ic/nvlink` and `ic/pcie`, the bytes that a job's whole GPUs send and receive. One step of a job
//! answers on each node, for the whole job (module `turn`).
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

#[expect(unsafe_code, reason = "Slurm's structs, and the symbols that it looks up")]
mod ffi;
mod peaks;
mod step;
mod traffic;
mod turn;
