//! Cluster harness: a real Slurm with simulated GPUs on one machine, for the demo and the end-to-end tests.

pub mod paths;
