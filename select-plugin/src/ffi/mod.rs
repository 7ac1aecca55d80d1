//! Everything C: Slurm's structs, its functions, and the symbols it looks up in this plugin.
//!
//! Lowest first: `host` and `version`, what is read of nodes, accounts and jobs, what is written, the hooks, and the functions that Slurm
//! calls.

#[macro_use]
mod forward;
mod accounts;
mod apply;
mod call;
mod entry;
mod fit;
mod hooks;
mod host;
mod job_test;
mod jobs;
mod licenses;
mod nodes;
mod prototypes;
mod real;
mod records;
mod resources;
mod version;
mod weights;
