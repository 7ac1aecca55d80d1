//! Everything C: the symbols slurmctld looks up, and what is read from and written to its structs.

mod accounting;
mod desc;
mod entry;
mod fit;
mod host;
mod records;
mod version;
