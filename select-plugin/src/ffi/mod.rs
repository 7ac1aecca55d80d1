//! Everything C: Slurm's structs, its functions, and the symbols it looks up in this plugin.
//!
//! Lowest first: `host` and `version`, what is read of nodes, accounts and jobs, what is written, the hooks, and the functions that Slurm
//! calls.

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
mod records;
mod resources;
mod version;
mod weights;

/// Slurm's own select_cons_tres.so.
static REAL: plugin_front::Real = plugin_front::Real::new("select_cons_tres.so");
