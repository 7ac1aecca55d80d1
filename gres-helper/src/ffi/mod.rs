//! Everything C: the symbols slurmctld looks up, and what is read from and written to its structs.

mod desc;
mod entry;
mod host;

#[cfg_attr(slurm_22_05, path = "v22_05.rs")]
#[cfg_attr(slurm_24_11, path = "v24_11.rs")]
mod version;

include!(concat!(env!("OUT_DIR"), "/sys.rs"));
