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
mod passed_on;
mod read;
mod real;
mod room;
mod steps;

#[cfg_attr(slurm_22_05, path = "v22_05.rs")]
#[cfg_attr(slurm_24_11, path = "v24_11.rs")]
mod version;

include!(concat!(env!("OUT_DIR"), "/sys.rs"));
