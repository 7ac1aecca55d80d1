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
mod hooks;
mod host;
mod job_test;
mod jobs;
#[cfg(test)]
#[path = "../tests/layout.rs"]
mod layout;
mod licenses;
mod nodes;
mod prototypes;
mod real;
mod resources;
mod version;
mod weights;

include!(concat!(env!("OUT_DIR"), "/sys.rs"));
