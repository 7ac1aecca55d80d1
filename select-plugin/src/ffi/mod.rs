//! Everything C: Slurm's structs, its functions, and the symbols it looks up in this plugin.

#[macro_use]
mod forward;
mod apply;
mod chosen;
mod entry;
mod hooks;
mod host;
mod job_test;
#[cfg(test)]
mod layout;
mod licenses;
#[cfg(not(slurm_since = "23.11"))]
mod mend;
mod passed_on;
mod read;
mod real;
mod room;
#[cfg(not(slurm_since = "25.05"))]
mod steps;
mod version;

include!(concat!(env!("OUT_DIR"), "/sys.rs"));
