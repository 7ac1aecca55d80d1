//! Everything C: the symbols slurmctld looks up, and what is read from and written to its structs.

mod desc;
mod entry;
mod host;
mod prototypes;
mod version;

include!(concat!(env!("OUT_DIR"), "/sys.rs"));
